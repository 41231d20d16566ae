// Who did something to what, with links to records that have a page.
import type { RouteOutput } from "../../../client.ts";
import { hrefTo } from "../here.ts";
import { Badge } from "../parts/badge.tsx";
import { UserText } from "../parts/text.tsx";

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

/** "API key", "Workspace member". */
export function typeWords(type: string): string {
  const words = type.replaceAll("_", " ").replace(/^api\b/, "API");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Ids begin with the time: those of one day differ at their end. */
const short = (id: string): string => (id.length > 13 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id);

/** Its name, and the id as its title; the id where the record is gone. */
function Record({ id, names }: { id: string; names: Names }) {
  const name = names.get(id);
  if (name === undefined) return <code title={id}>{short(id)}</code>;
  return (
    <span title={id}>
      <UserText>{name}</UserText>
    </span>
  );
}

type Props = { row: AuditRow; names: Names };

export function Actor({ row: { actor, actor_type, actor_id }, names }: Props) {
  if (actor) return <UserText>{actor.name ?? actor.email}</UserText>;
  return (
    <>
      {ACTOR_TYPES[actor_type] ?? actor_type} {actor_id !== null && <Record id={actor_id} names={names} />}
    </>
  );
}

export function Target({ row: { target_type, target_id }, names }: Props) {
  if (target_id === null) return <>{typeWords(target_type)}</>;
  const page = PAGE_OF[target_type];
  const record = <Record id={target_id} names={names} />;
  return (
    <>
      {typeWords(target_type)} {page ? <a href={hrefTo(page, { id: target_id })}>{record}</a> : record}
    </>
  );
}

/** Beside the action: the log has rows of both environments. */
export function TestBadge({ of: { payload } }: { of: AuditRow }) {
  return payload.env === "test" ? <Badge tone="warn">Test</Badge> : null;
}
