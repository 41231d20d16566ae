// The main navigation: a column on wide windows, a dialog behind "Menu" on phones.
import { useState } from "preact/hooks";
import { hrefTo } from "../here.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { place } from "../routes.ts";
import { ServerStatus } from "./status.tsx";
import { WorkspaceMenu } from "./workspace-menu.tsx";

export type NavItem = { page: string; title: string; icon: IconName };

function NavList({ items, onChoose }: { items: readonly NavItem[]; onChoose?: () => void }) {
  const here = place.value.kind === "workspace" ? place.value.page : "";
  return (
    <ul>
      {items.map(({ page, title, icon }) => (
        <li key={page}>
          <a href={hrefTo(page)} aria-current={page === here ? "page" : undefined} onClick={onChoose}>
            <Icon name={icon} />
            <span>{title}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}

export function Nav({ items }: { items: readonly NavItem[] }) {
  return (
    <nav class="main-nav" aria-label="Main">
      <NavList items={items} />
    </nav>
  );
}

export function NavMenu({ items }: { items: readonly NavItem[] }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="button quiet square menu-button" aria-label="Menu" onClick={() => setOpen(true)}>
        <Icon name="menu" />
      </button>
      {open && (
        <Dialog title="Menu" onClose={() => setOpen(false)}>
          <WorkspaceMenu />
          <nav class="menu-nav" aria-label="Main">
            <NavList items={items} onChoose={() => setOpen(false)} />
          </nav>
          <ServerStatus />
        </Dialog>
      )}
    </>
  );
}
