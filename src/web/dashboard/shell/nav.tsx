// The main navigation: a column on wide windows, a dialog behind "Menu" on phones.
import { useEffect, useState } from "preact/hooks";
import { POLL_MS } from "../api/query.ts";
import { hrefTo } from "../links.ts";
import { countLeaks, useOverview } from "../api/overview.ts";
import { Dialog } from "../components/dialog.tsx";
import { Icon, type IconName } from "../components/icon.tsx";
import { place } from "../routes.ts";
import { ServerStatus } from "./status.tsx";
import { WorkspaceMenu } from "./workspace-menu.tsx";
import type { HasEnv } from "./banners.tsx";

export type NavItem = { page: string; title: string; icon: IconName; hasEnv: HasEnv | "records" };

/** By then the page has been loaded: it opens with few requests. */
const LEAKS_AFTER_MS = 10_000;

/** Whether the number of leaked keys is read: on Home, which shows it too, at once. */
function useReadsLeaks(): boolean {
  const isHome = place.value.kind === "workspace" && place.value.page === "home";
  const [isDue, setDue] = useState(isHome);
  useEffect(() => {
    const timer = setTimeout(() => setDue(true), isHome ? 0 : LEAKS_AFTER_MS);
    return () => clearTimeout(timer);
  }, [isHome]);
  return isDue;
}

/** Beside the link, whose name stays that of the page. */
function LeakCount() {
  const unreplaced = useOverview(POLL_MS.rare).state.value.data?.leaks.unreplaced ?? 0;
  if (unreplaced === 0) return null;
  return (
    <span class="nav-count">
      {countLeaks(unreplaced)} <span class="hide">{unreplaced === 1 ? "leaked key" : "leaked keys"} to replace</span>
    </span>
  );
}

function NavList({ items, onChoose }: { items: readonly NavItem[]; onChoose?: () => void }) {
  const here = place.value.kind === "workspace" ? place.value.page : "";
  // By the time that a person opens the menu, the page has been loaded.
  const readsLeaks = useReadsLeaks() || onChoose !== undefined;
  return (
    <ul>
      {items.map(({ page, title, icon }) => (
        <li key={page}>
          <a href={hrefTo(page)} aria-current={page === here ? "page" : undefined} onClick={onChoose}>
            <Icon name={icon} />
            <span>{title}</span>
          </a>
          {page === "leaks" && readsLeaks && <LeakCount />}
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
          <div class="server-status">
            <ServerStatus />
          </div>
        </Dialog>
      )}
    </>
  );
}
