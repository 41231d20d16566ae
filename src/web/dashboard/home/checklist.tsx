// The first steps with a workspace. Every step is derived from data; nothing about it is stored.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Env } from "../../../kernel/credentials.ts";
import { POLL_MS, useRead } from "../api/query.ts";
import { membership } from "../api/session.ts";
import { hrefTo } from "../here.ts";
import { Badge } from "../parts/badge.tsx";
import { Icon } from "../parts/icon.tsx";
import { Time } from "../parts/time.tsx";

/** `href`: where to do it. */
type Step = { name: string; done: boolean; detail: ComponentChildren; href?: string };

/** Null until everything is known. Polls until every step is done. `env`: where a request is to be verified. */
export function useSteps(env: Env): Step[] | null {
  const [done, setDone] = useState(false);
  const every = { everyMs: done ? 0 : POLL_MS.live };
  const overview = useRead("GET /v1/overview", { query: { env } }, every).state.value.data;
  const newest = { include_revoked: "true", limit: 1 } as const;
  const keys = useRead("GET /v1/keys", { query: newest }, every).state.value.data?.data;
  const fleet = { view: "fleet", state: "live", limit: 1 } as const;
  const nodes = useRead("GET /v1/nodes", { query: fleet }, every).state.value.data?.data;
  const secrets = useRead("GET /v1/secret_keys", {}, every).state.value.data?.data;
  if (!overview || !keys || !nodes || !secrets) return null;
  const { first_verified_at: first } = overview;
  const live = secrets.find((secret) => secret.env === "live" && secret.revoked_at === null);
  const node = nodes[0];
  const steps = [
    { name: "Create a workspace", done: true, detail: <bdi>{membership.value?.name}</bdi> },
    {
      name: "Create a key",
      done: keys.length > 0,
      detail: keys[0] && <code>{keys[0].display_prefix}…</code>,
      href: hrefTo("keys"),
    },
    {
      name: "Connect a verifier",
      done: node !== undefined,
      detail: node && <code>{node.node_id}</code>,
      href: hrefTo("projects"),
    },
    { name: "First verified request", done: first !== null, detail: first && <Time at={first} /> },
    {
      name: "Create a live secret key",
      done: live !== undefined,
      detail: live && <code>{live.display_prefix}…</code>,
      href: hrefTo("developers", { env: "live" }),
    },
  ];
  if (!done && steps.every((step) => step.done)) setDone(true);
  return steps;
}

/** `links`: whether open steps lead to their pages; not where secrets are shown that leaving would lose. */
export function Checklist({ steps, links = false }: { steps: readonly Step[]; links?: boolean }) {
  return (
    <ol class="checklist" aria-label="Checklist">
      {steps.map(({ name, done, detail, href }) => (
        <li key={name} class={done ? "done" : ""}>
          <span class="check-mark">{done && <Icon name="check" />}</span>
          <span class="grow">
            {links && !done && href ? <a href={href}>{name}</a> : name}
            {done && detail && <span class="muted small"> {detail}</span>}
          </span>
          <Badge tone={done ? "good" : "plain"}>{done ? "Done" : "To do"}</Badge>
        </li>
      ))}
    </ol>
  );
}
