// The account menu: the person, the theme, the last notifications, and the way out.
import { useState } from "preact/hooks";
import { session } from "../api/session.ts";
import { logOut } from "../api/sign-in.ts";
import { Dialog } from "../components/dialog.tsx";
import { Icon } from "../components/icon.tsx";
import { Menu, type MenuItem } from "../components/menu.tsx";
import { Time } from "../components/time.tsx";
import { setTheme, theme, THEMES } from "./theme.ts";
import { notifications } from "./toasts.tsx";

function Notifications({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Notifications" onClose={onClose}>
      {notifications.value.length === 0 && (
        <p class="muted">Nothing yet. What you change in this tab is listed here.</p>
      )}
      <ul class="plain-list">
        {notifications.value.map(({ id, text, at }) => (
          <li key={id} class="recent">
            <bdi>{text}</bdi> <Time at={new Date(at).toISOString()} />
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

export function AccountMenu() {
  const [listing, setListing] = useState(false);
  const user = session.value?.user;
  if (!user) return null;
  const account: MenuItem[] = [{ label: "Account", hint: user.email, icon: "user", href: "#/account" }];
  const themes = THEMES.map(
    ([value, label]): MenuItem => ({ label, checked: theme.value === value, onSelect: () => setTheme(value) }),
  );
  const last: MenuItem[] = [
    { label: "Notifications", icon: "bell", onSelect: () => setListing(true) },
    { label: "Log out", icon: "exit", onSelect: logOut },
  ];
  return (
    <>
      <Menu
        label="Account menu"
        className="button quiet square"
        groups={[account, themes, last]}
        headings={{ 1: "Theme" }}
      >
        <Icon name="user" />
      </Menu>
      {listing && <Notifications onClose={() => setListing(false)} />}
    </>
  );
}
