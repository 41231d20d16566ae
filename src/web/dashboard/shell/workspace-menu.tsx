// The button with the workspace's name: other workspaces of the person, and the page that makes a new one.
import { membership, roleName, session } from "../api/session.ts";
import { env, hrefTo } from "../links.ts";
import { Icon } from "../components/icon.tsx";
import { Menu, type MenuItem } from "../components/menu.tsx";

export function WorkspaceMenu() {
  const here = membership.value;
  if (!here) return null;
  const others = (session.value?.memberships ?? []).map(
    ({ workspace_id, name, slug, role }): MenuItem => ({
      label: name,
      hint: `${roleName(role)} · ${slug}`,
      href: hrefTo("home", { slug, env: env.value }),
      checked: workspace_id === here.workspace_id,
    }),
  );
  const more: MenuItem[] = [{ label: "All workspaces", href: "#/workspaces" }];
  return (
    <Menu label={`Workspace: ${here.name}`} className="workspace-button" groups={[others, more]}>
      <span class="workspace-mark" data-letter={[...here.name][0]?.toUpperCase()} aria-hidden="true" />
      <span class="grow">
        <bdi>{here.name}</bdi>
      </span>
      <Icon name="down" />
    </Menu>
  );
}
