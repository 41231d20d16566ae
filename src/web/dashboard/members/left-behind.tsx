// What a person leaves in the workspace: secret keys that they made and invitations that they sent. Neither ends by
// itself.
import type { RouteOutput } from "../../../client.ts";
import { roleName } from "../api/session.ts";
import { Badge } from "../components/badge.tsx";
import { Time } from "../components/time.tsx";

export type LeftBehind = Pick<RouteOutput<"GET /v1/members/{userId}/left_behind">, "secret_keys" | "invites" | "more">;

export const leavesNothing = ({ secret_keys, invites }: LeftBehind): boolean =>
  secret_keys.length + invites.length === 0;

export function LeftBehindList({ left }: { left: LeftBehind }) {
  return (
    <>
      <ul class="boxed-list" aria-label="Left behind">
        {left.secret_keys.map(({ id, env, display_prefix, last_used_at }) => (
          <li key={id}>
            <span>
              Secret key <code>{display_prefix}…</code>
            </span>
            <span class="muted small">
              {env === "test" ? "Test" : "Live"}, last used <Time at={last_used_at} none="never" />
            </span>
          </li>
        ))}
        {left.invites.map(({ id, email, role }) => (
          <li key={id}>
            <span>
              Invitation for <bdi>{email}</bdi>
            </span>
            <Badge>{roleName(role)}</Badge>
          </li>
        ))}
      </ul>
      {left.more && <p class="muted small">Only the first 100 of each are listed.</p>}
    </>
  );
}
