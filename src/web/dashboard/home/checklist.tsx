// The first steps with a workspace. Every step is derived from data; nothing about it is stored.
import type { ComponentChildren } from "preact";
import { useRead } from "../api/query.ts";
import { Badge } from "../parts/badge.tsx";
import { Icon } from "../parts/icon.tsx";
import { Time } from "../parts/time.tsx";

const EVERY_MS = 2_000;

export type Step = { name: string; done: boolean; detail: ComponentChildren };

const newest = (times: readonly (string | null)[]): string | null =>
  times
    .filter((time) => time !== null)
    .toSorted()
    .at(-1) ?? null;

/** Null until everything is known. */
export function useSteps(): Step[] | null {
  const every = { everyMs: EVERY_MS };
  const keys = useRead("GET /v1/keys", { query: { include_revoked: "true" } }, every).answer.value.data?.data;
  const nodes = useRead("GET /v1/nodes", { query: { view: "fleet", state: "live" } }, every).answer.value.data?.data;
  const secrets = useRead("GET /v1/secret_keys", {}, every).answer.value.data?.data;
  if (!keys || !nodes || !secrets) return null;
  const used = newest(keys.map(({ last_used_at }) => last_used_at));
  const live = secrets.find(({ env, revoked_at }) => env === "live" && revoked_at === null);
  const node = nodes[0];
  return [
    { name: "Create a workspace", done: true, detail: "You are in it." },
    { name: "Create a key", done: keys.length > 0, detail: keys[0] && <code>{keys[0].display_prefix}…</code> },
    { name: "Connect a verifier", done: node !== undefined, detail: node && <code>{node.node_id}</code> },
    { name: "First verified request", done: used !== null, detail: used && <Time at={used} /> },
    { name: "Create a live secret key", done: live !== undefined, detail: live && <code>{live.display_prefix}…</code> },
  ];
}

export function Checklist({ steps }: { steps: readonly Step[] }) {
  return (
    <ol class="checklist" aria-label="Checklist">
      {steps.map(({ name, done, detail }) => (
        <li key={name} class={done ? "done" : ""}>
          <span class="check-mark">{done && <Icon name="check" />}</span>
          <span class="grow">
            {name}
            {done && detail && <span class="muted small"> {detail}</span>}
          </span>
          <Badge tone={done ? "good" : "plain"}>{done ? "Done" : "To do"}</Badge>
        </li>
      ))}
    </ol>
  );
}
