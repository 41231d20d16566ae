// Who did something to what, with links to records that have a page.
import type { RouteOutput } from "../../../client.ts";
import { hrefTo } from "../here.ts";
import { UserText } from "../parts/text.tsx";

export type AuditRow = RouteOutput<"GET /v1/audit_logs">["data"][number];

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

export function Actor({ row }: { row: AuditRow }) {
  const { actor, actor_type, actor_id } = row;
  const type = ACTOR_TYPES[actor_type] ?? actor_type;
  if (actor) return <UserText>{actor.name ?? actor.email}</UserText>;
  return (
    <>
      {type} {actor_id !== null && <code title={actor_id}>{short(actor_id)}</code>}
    </>
  );
}

export function Target({ row }: { row: AuditRow }) {
  const { target_type, target_id } = row;
  if (target_id === null) return <>{typeWords(target_type)}</>;
  const page = PAGE_OF[target_type];
  const id = <code title={target_id}>{short(target_id)}</code>;
  return (
    <>
      {typeWords(target_type)} {page ? <a href={hrefTo(page, { id: target_id })}>{id}</a> : id}
    </>
  );
}
