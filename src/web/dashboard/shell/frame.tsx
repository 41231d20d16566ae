// What surrounds every page of a workspace: navigation, header, banners, toasts.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { formatAbsolute } from "../../shared/format.ts";
import { serverNow } from "../api/clock.ts";
import { membership } from "../api/session.ts";
import { useHeightProperty } from "./height.ts";
import { Logo } from "../components/icon.tsx";
import { EnvContext } from "../components/page.tsx";
import { AccountMenu } from "./account-menu.tsx";
import { Banners, type HasEnv } from "./banners.tsx";
import { EnvironmentSwitch } from "./environment.tsx";
import { Nav, NavMenu, type NavItem } from "./nav.tsx";
import { Palette, SearchButton } from "../palette/palette.tsx";
import { Shortcuts } from "./shortcuts.tsx";
import { ServerStatus } from "./status.tsx";
import { Toasts } from "./toasts.tsx";
import { WorkspaceMenu } from "./workspace-menu.tsx";

type FrameProps = {
  items: readonly NavItem[];
  hasEnv: HasEnv;
  children: ComponentChildren;
};

/** Where and when a printed page was read. */
function PrintFoot() {
  const [text, setText] = useState("");
  useEffect(() => {
    const write = (): void => setText(`${location.href} · ${formatAbsolute(serverNow())}`);
    addEventListener("beforeprint", write);
    return () => removeEventListener("beforeprint", write);
  }, []);
  return <p class="print-foot">{text}</p>;
}

function skip(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>("main h1")?.focus();
}

export function Frame({ items, hasEnv, children }: FrameProps) {
  const head = useHeightProperty<HTMLElement>("--head");
  return (
    <div class="frame">
      <a class="skip" href="#content" onClick={skip}>
        Skip to content
      </a>
      <aside class="side" aria-label="Workspace">
        <a class="brand" href="#/">
          <Logo />
          Keyrack
        </a>
        <WorkspaceMenu />
        <Nav items={items} />
        <div class="side-foot server-status">
          <ServerStatus />
        </div>
      </aside>
      <div class="column">
        <header ref={head} class="head">
          <div class="top">
            <NavMenu items={items} />
            <div class="grow here">
              <bdi>{membership.value?.name}</bdi>
            </div>
            <SearchButton />
            {hasEnv && <EnvironmentSwitch />}
            <AccountMenu />
          </div>
          <Banners hasEnv={hasEnv} />
        </header>
        <main id="content">
          <EnvContext.Provider value={hasEnv !== false}>{children}</EnvContext.Provider>
        </main>
        <PrintFoot />
      </div>
      <Toasts />
      <Palette pages={items} />
      <Shortcuts />
    </div>
  );
}
