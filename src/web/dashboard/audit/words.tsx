// Who did something to what, with links to records that have a page.
import type { RouteOutput } from "../../../client.ts";
import { env, hrefTo } from "../links.ts";
import { typeWords } from "./actions.ts";
import { Badge } from "../components/badge.tsx";
import { AddressBelow, shownName, UserText } from "../components/text.tsx";

export type AuditRow = RouteOutput<"GET /v1/audit_logs">["data"][number];
/** Id → name. */
export type Names = ReadonlyMap<string, string>;

export const ACTOR_TYPES: Record<string, string> = {
  user: "Person",
  secret_key: "Secret key",
  embed_token: "Portal",
  bootstrap: "Bootstrap token",
  scanner: "Secret scanner",
  api_key: "Holder of the key",
  system: "Keyrack",
};

/** Pages of records, by the type of the target. */
const PAGE_OF: Record<string, string> = {
  api_key: "keys",
  tenant: "tenants",
  project: "projects",
  plan: "plans",
};

/** Ids begin with the time: those of one day differ at their end. */
export const short = (id: string): string => (id.length > 13 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id);

/** Its name, and the id as its title; the id if it has none. */
function Record({ id, name }: { id: string; name: string | undefined }) {
  if (name === undefined) return <code title={id}>{short(id)}</code>;
  return (
    <span title={id}>
      <UserText>{name}</UserText>
    </span>
  );
}

type Props = { row: AuditRow; names: Names };

/** A person by name and address; another actor by its type, and its name if it has one. */
export function actorText({ actor, actor_type, actor_id }: AuditRow, names: Names): string {
  const name = actor && shownName(actor.name);
  if (actor) return name === null ? actor.email : `${name} (${actor.email})`;
  const type = ACTOR_TYPES[actor_type] ?? actor_type;
  return actor_id === null ? type : `${type} ${names.get(actor_id) ?? short(actor_id)}`;
}

/** Leads to everything that the actor did. */
export function Actor({ row: { actor, actor_type, actor_id }, names }: Props) {
  const name = actor ? (shownName(actor.name) ?? actor.email) : names.get(actor_id ?? "");
  return (
    <>
      {!actor && `${ACTOR_TYPES[actor_type] ?? actor_type} `}
      {actor_id !== null && (
        <a class="record-link" href={hrefTo("audit", { query: { actor: actor_id } })}>
          <Record id={actor_id} name={name} />
        </a>
      )}{" "}
      {actor && <AddressBelow of={actor} />}
    </>
  );
}

/** What the row itself calls its target: people, invitations, and what was deleted, are in no list. */
function nameIn({ payload }: AuditRow): string | undefined {
  return [payload.name, payload.email, payload.external_id, payload.slug].find((text) => typeof text === "string");
}

export function Target({ row, names }: Props) {
  const { target_type, target_id } = row;
  if (target_id === null) return <>{typeWords(target_type)}</>;
  // What was deleted has no name, and no page any more.
  const page = names.has(target_id) ? PAGE_OF[target_type] : undefined;
  const record = <Record id={target_id} name={names.get(target_id) ?? nameIn(row)} />;
  return (
    <>
      {typeWords(target_type)} {page ? <a href={hrefTo(page, { id: target_id })}>{record}</a> : record}
    </>
  );
}

/** Beside the action: the log has rows of both environments. Live rows are marked where the page shows test data. */
export function EnvBadge({ of: { payload } }: { of: AuditRow }) {
  if (payload.env === "test") return <Badge tone="warn">Test</Badge>;
  return payload.env === "live" && env.value === "test" ? <Badge tone="good">Live</Badge> : null;
}
