// The first steps with a workspace. Every step is derived from data; nothing about it is stored.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Env } from "../../../kernel/credentials.ts";
import type { Overview } from "../api/overview.ts";
import { POLL_MS, useRead } from "../api/query.ts";
import { useSecretKeys } from "../api/records.ts";
import { membership } from "../api/session.ts";
import { hrefTo } from "../links.ts";
import { roleReason } from "../components/button.tsx";
import { Badge } from "../components/badge.tsx";
import { Icon } from "../components/icon.tsx";
import { Time } from "../components/time.tsx";

/** `href`: where to do it. `refused`: why this person cannot. */
type Step = { name: string; done: boolean; detail: ComponentChildren; href?: string; refused?: string | null };

const isReached = ({ keys, nodes, first_verified_at }: Overview): boolean =>
  keys.active > 0 && nodes.live > 0 && first_verified_at !== null;

/** Null until everything is known. Polls until every step is done. A request in either environment counts. */
export function useSteps(env: Env): Step[] | null {
  const [done, setDone] = useState(false);
  const every = { everyMs: done ? 0 : POLL_MS.live };
  const overview = useRead("GET /v1/overview", { query: { env } }, every).state.value.data;
  const isUnverified = overview?.first_verified_at === null;
  const elsewhere = { query: { env: env === "live" ? "test" : "live" } } as const;
  const other = useRead("GET /v1/overview", elsewhere, { ...every, isNeeded: isUnverified }).state.value.data;
  const secrets = useSecretKeys(every);
  const live = secrets?.find((secret) => secret.env === "live" && secret.revoked_at === null);
  // Both name what they found. If the overview has an answer for every step, nothing is left to be named.
  const isOpen = overview !== null && !(live && isReached(overview));
  const named = { ...every, isNeeded: secrets !== null && isOpen };
  const newest = { include_revoked: "true", limit: 1 } as const;
  const keys = useRead("GET /v1/keys", { query: newest }, named).state.value.data?.data;
  const fleet = { view: "fleet", state: "live", limit: 1 } as const;
  const nodes = useRead("GET /v1/nodes", { query: fleet }, named).state.value.data?.data;
  if (!overview || !secrets || (isOpen && !(keys && nodes)) || (isUnverified && !other)) return null;
  const first = overview.first_verified_at ?? other?.first_verified_at ?? null;
  const node = nodes?.[0];
  // The page of a project has the code.
  const verify = hrefTo("projects", keys?.[0] && { id: keys[0].project_id });
  const refused = roleReason("admin");
  const steps = [
    { name: "Create a workspace", done: true, detail: <bdi>{membership.value?.name}</bdi> },
    {
      name: "Create a key",
      done: !isOpen || keys?.[0] !== undefined,
      detail: keys?.[0] && <code>{keys[0].display_prefix}…</code>,
      href: hrefTo("keys", { query: { create: "key" } }),
      refused,
    },
    {
      name: "Connect a verifier",
      done: !isOpen || node !== undefined,
      detail: node && <code>{node.node_id}</code>,
      href: verify,
    },
    { name: "First verified request", done: first !== null, detail: first && <Time at={first} />, href: verify },
    {
      name: "Create a live secret key",
      done: live !== undefined,
      detail: live && <code>{live.display_prefix}…</code>,
      href: hrefTo("developers", { env: "live", query: { create: "secret" } }),
      refused,
    },
  ];
  if (!done && steps.every((step) => step.done)) setDone(true);
  return steps;
}

/** `links`: whether open steps lead to their pages; not where secrets are shown that leaving would lose. */
export function Checklist({ steps, links = false }: { steps: readonly Step[]; links?: boolean }) {
  return (
    <ol class="checklist" aria-label="Checklist">
      {steps.map(({ name, done, detail, href, refused }) => (
        <li key={name} class={done ? "done" : ""}>
          <span class="check-mark">{done && <Icon name="check" />}</span>
          <span class="grow">
            {links && !done && href && !refused ? <a href={href}>{name}</a> : name}
            <span class="muted small"> {done ? detail : links && refused}</span>
          </span>
          <Badge tone={done ? "good" : "plain"}>{done ? "Done" : "To do"}</Badge>
        </li>
      ))}
    </ol>
  );
}
