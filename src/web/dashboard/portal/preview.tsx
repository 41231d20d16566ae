// The portal as a customer would see it, with keys of a chosen tenant or sample data. It is the real element; its reads
// are answered from this person's own session and its writes are refused, so a preview changes nothing.
import { useEffect, useRef } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import type { Env } from "../../../kernel/credentials.ts";
import { call } from "../api/call.ts";
import { problemMessage, toProblem } from "../api/problems.ts";
import type { Project, Tenant } from "../api/records.ts";
import { colourProperties, type Colours } from "./colours.ts";
import { sampleKeys, sampleTenant, sampleUsage } from "./sample.ts";

export type Look = { theme: string; locale: string; colours: Colours; mayChange: boolean };
type Keys = Pick<RouteOutput<"GET /v1/keys">, "data" | "has_more">;
/** Without a tenant it is sample data. `first`: the first page of the tenant's keys that are not revoked. */
type Subject = { project: Project; tenant: Tenant | null; first: Keys | null; env: Env };

type EmbedSession = RouteOutput<"GET /v1/embed/session">;
type Call = { method: "GET" | "POST"; path: string; body: unknown };
type Answer = { status: number; body: unknown };
type PortalElement = HTMLElement & { transport: (call: Call) => Promise<Answer> };

/** Keys on a page of the portal. */
export const LIST_MAX = 100;

const refusal = (status: number, message: string): Answer => ({
  status,
  body: { error: { code: "preview", message } },
});

async function keysOf({ project, tenant, first, env }: Subject, withRevoked: boolean, after?: string) {
  if (!tenant) return { data: sampleKeys(env) };
  const query = {
    after,
    project_id: project.id,
    tenant_id: tenant.id,
    env,
    limit: LIST_MAX,
    include_revoked: withRevoked ? ("true" as const) : ("false" as const),
  };
  const isFirst = !withRevoked && after === undefined;
  const { data, has_more } = (isFirst && first) || (await call("GET /v1/keys", { query }));
  return { data: data.map((key) => ({ ...key, meta: {} })), has_more };
}

async function quotasOf({ tenant, env }: Subject) {
  if (!tenant) return { object: "list", data: [] };
  return call("GET /v1/tenants/{id}/quotas", { params: { id: tenant.id }, query: { env } });
}

/** A token that may grant the scopes that the project lists, and those of the tenant's keys. */
async function sessionOf(subject: Subject, look: Look): Promise<Omit<EmbedSession, "expires_at" | "expires_in">> {
  const { project, tenant, env } = subject;
  const { id, external_id, name } = tenant ?? sampleTenant;
  const { default_ttl_days, max_ttl_days } = project.key_policy;
  const used = (await keysOf(subject, false)).data.flatMap(({ scopes }) => scopes);
  const granted = new Set([...project.scope_catalogue.map((scope) => scope.name), ...used]);
  return {
    object: "embed_session",
    project: { id: project.id, name: project.name, slug: project.slug },
    env,
    test_mode: env === "test",
    tenant: { id, external_id, name },
    scopes: ["keys:read", ...(look.mayChange ? ["keys:write"] : []), ...[...granted].map((one) => `key_scope:${one}`)],
    default_ttl_days: default_ttl_days ?? max_ttl_days,
    scope_catalogue: project.scope_catalogue,
    suspended: tenant !== null && tenant.suspended_at !== null,
    accepts_idempotency_key: true,
  };
}

async function answerRead(subject: Subject, look: Look, path: string): Promise<Answer> {
  const [name = "", search = ""] = path.split("?");
  const query = new URLSearchParams(search);
  const ok = (body: unknown): Answer => ({ status: 200, body });
  if (name === "keys")
    return ok(await keysOf(subject, query.get("include_revoked") === "true", query.get("after") ?? undefined));
  if (name === "quotas") return ok(await quotasOf(subject));
  if (name === "session") return ok(await sessionOf(subject, look));
  const [, id = ""] = /^keys\/([^/]+)\/usage$/.exec(name) ?? [];
  const days = Number(query.get("days")) || 30;
  if (id.startsWith("sample")) return ok(sampleUsage(id, days));
  return ok(await call("GET /v1/keys/{id}/usage", { params: { id }, query: { days } }));
}

async function answer(subject: Subject, look: Look, { method, path }: Call): Promise<Answer> {
  if (method !== "GET") return refusal(403, "This is a preview. Nothing was changed.");
  try {
    return await answerRead(subject, look, path);
  } catch (error) {
    return refusal(502, problemMessage(toProblem(error)));
  }
}

export function Preview({ subject, look }: { subject: Subject; look: Look }) {
  const frame = useRef<HTMLDivElement>(null);
  const { theme, locale, colours, mayChange } = look;
  useEffect(() => {
    const element = document.createElement("keyrack-portal") as PortalElement;
    element.transport = (request) => answer(subject, look, request);
    element.setAttribute("theme", theme);
    element.setAttribute("locale", locale);
    frame.current?.replaceChildren(element);
    // Resolved here: the script's own address is another one.
    const script: string = new URL("./embed/portal.js", document.baseURI).href;
    import(script).catch(() => frame.current?.replaceChildren("The preview could not be loaded. Reload the page."));
    return () => element.remove();
  }, [subject.project.id, subject.tenant?.id, subject.env, theme, locale, mayChange]);
  // On the frame, from which the element inherits them: a colour does not load the keys again.
  const style = Object.fromEntries(colourProperties(colours));
  return <div ref={frame} class={`preview ${theme}`} style={style} />;
}
