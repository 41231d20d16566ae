// A request that succeeds, for every route that changes anything: `prepare` creates what it needs, so that nothing but
// the request itself happens after it.
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { headersFor, keyList } from "../harness/instances/scanner-keys.ts";
import type { CallOptions, Reply } from "../harness/processes/send.ts";
import { logIn, mailedToken, makePerson, must, PASSWORD, type Person, type World } from "../harness/instances/world.ts";

export type Request = { bearer: string | null; route: string; body?: unknown; options?: CallOptions };
export type Scene = {
  world: World;
  dataDir: string;
  bootstrap: string;
  owner: Person;
  fresh: () => string;
};
type Prepare = (scene: Scene) => Promise<Request>;

const ORIGIN = "https://app.example.com";
const FROM_BROWSER = { headers: { origin: ORIGIN } };
const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
const RULE = { id: "r", limit: 100, window_ms: 60_000, algorithm: "sliding", scope: "tenant" };

/** Writes the scanner's public keys and returns the setting for them; call it before the server starts. */
export function scannerFlags(dir: string): { scanner_keys_file: string } {
  const file = join(dir, "scanner-keys.json");
  writeFileSync(file, keyList());
  return { scanner_keys_file: file };
}

/** Creates a resource with the workspace's secret key. */
const make = ({ world }: Scene, route: string, body: object): Promise<Reply["body"]> =>
  must(world.call(world.key, route, body));
const asKey = ({ world }: Scene, route: string, body: unknown = {}): Request => ({ bearer: world.key, route, body });

const newKey = (scene: Scene): Promise<Reply["body"]> => {
  const { project_id, tenant_id } = scene.world;
  return make(scene, "POST /v1/keys", { project_id, tenant_id, env: "live" });
};
const newTenant = (scene: Scene): Promise<Reply["body"]> =>
  make(scene, "POST /v1/tenants", { external_id: scene.fresh() });
const QUOTAS = [{ id: "calls", amount: 10, refill: "monthly" }];
async function newMeteredKey(scene: Scene): Promise<Reply["body"]> {
  const { project_id, tenant_id } = scene.world;
  return make(scene, "POST /v1/keys", { project_id, tenant_id, env: "live", quotas: QUOTAS });
}
const newProject = (scene: Scene): Promise<Reply["body"]> =>
  make(scene, "POST /v1/projects", { name: "P", slug: scene.fresh() });
const newPlan = (scene: Scene): Promise<Reply["body"]> =>
  make(scene, "POST /v1/plans", { name: "Plan", slug: scene.fresh() });
const newPerson = ({ world, dataDir, fresh }: Scene): Promise<Person> =>
  makePerson(world.call, dataDir, `${fresh()}@example.com`);

async function newMember(scene: Scene): Promise<Person> {
  const person = await newPerson(scene);
  const { token } = await make(scene, "POST /v1/invites", { email: person.email, role: "member" });
  await must(scene.world.call(person.session, "POST /v1/auth/invites/accept", { token }));
  return person;
}

async function newEmbedToken(scene: Scene): Promise<string> {
  const { project_id, tenant_id } = scene.world;
  await make(scene, "PATCH /v1/workspace", { embed_origins: [ORIGIN] });
  const want = { project_id, tenant_id, env: "live", scopes: ["keys:read", "keys:write"] };
  return (await make(scene, "POST /v1/embed_tokens", want)).token as string;
}

async function newClaim(scene: Scene): Promise<{ scope_hash: string; env: string; lock_token: string }> {
  const scope = { scope_hash: hash(scene.fresh()), env: "live" };
  const { lock_token } = await make(scene, "POST /v1/idempotency/claim", { ...scope, fingerprint: hash("f") });
  return { ...scope, lock_token };
}

const asOwner = ({ owner }: Scene, route: string, body?: unknown): Request => ({
  bearer: owner.session,
  route,
  ...(body !== undefined && { body }),
});

export const calls: Record<string, Prepare> = {
  "POST /v1/keys": async (s) =>
    asKey(s, "POST /v1/keys", { project_id: s.world.project_id, tenant_id: s.world.tenant_id, env: "live" }),
  "PATCH /v1/keys/{id}": async (s) => asKey(s, `PATCH /v1/keys/${(await newKey(s)).id}`, { name: s.fresh() }),
  "POST /v1/keys/{id}/rotate": async (s) => asKey(s, `POST /v1/keys/${(await newKey(s)).id}/rotate`),
  "POST /v1/keys/{id}/revoke": async (s) => asKey(s, `POST /v1/keys/${(await newKey(s)).id}/revoke`),
  "POST /v1/keys/{id}/disable": async (s) => asKey(s, `POST /v1/keys/${(await newKey(s)).id}/disable`),
  "POST /v1/keys/{id}/enable": async (s) => {
    const { id } = await newKey(s);
    await make(s, `POST /v1/keys/${id}/disable`, {});
    return asKey(s, `POST /v1/keys/${id}/enable`);
  },
  "POST /v1/bulk/keys": async (s) =>
    asKey(s, "POST /v1/bulk/keys", { action: "disable", filter: { ids: [(await newKey(s)).id] } }),
  "POST /v1/self/revoke": async (s) => ({
    bearer: (await newKey(s)).key as string,
    route: "POST /v1/self/revoke",
    body: {},
  }),
  "POST /v1/self/rotate": async (s) => {
    await make(s, `PATCH /v1/projects/${s.world.project_id}`, { key_policy: { holder_rotate: true } });
    return { bearer: (await newKey(s)).key as string, route: "POST /v1/self/rotate", body: {} };
  },
  "POST /v1/secret_keys": async (s) => asKey(s, "POST /v1/secret_keys", { env: "live" }),
  "POST /v1/secret_keys/{id}/rotate": async (s) =>
    asKey(s, `POST /v1/secret_keys/${(await make(s, "POST /v1/secret_keys", { env: "live" })).id}/rotate`),
  "POST /v1/secret_keys/{id}/revoke": async (s) =>
    asKey(s, `POST /v1/secret_keys/${(await make(s, "POST /v1/secret_keys", { env: "live" })).id}/revoke`),
  "POST /v1/tenants": async (s) => asKey(s, "POST /v1/tenants", { external_id: s.fresh() }),
  "PATCH /v1/tenants/{id}": async (s) => asKey(s, `PATCH /v1/tenants/${(await newTenant(s)).id}`, { name: s.fresh() }),
  "DELETE /v1/tenants/{id}": async (s) => asKey(s, `DELETE /v1/tenants/${(await newTenant(s)).id}`, undefined),
  "POST /v1/tenants/{id}/suspend": async (s) => asKey(s, `POST /v1/tenants/${(await newTenant(s)).id}/suspend`),
  "POST /v1/tenants/{id}/resume": async (s) => {
    const { id } = await newTenant(s);
    await make(s, `POST /v1/tenants/${id}/suspend`, {});
    return asKey(s, `POST /v1/tenants/${id}/resume`);
  },
  "POST /v1/tenants/{id}/embed_tokens/revoke": async (s) =>
    asKey(s, `POST /v1/tenants/${(await newTenant(s)).id}/embed_tokens/revoke`),
  "POST /v1/projects": async (s) => asKey(s, "POST /v1/projects", { name: "P", slug: s.fresh() }),
  "PATCH /v1/projects/{id}": async (s) =>
    asKey(s, `PATCH /v1/projects/${(await newProject(s)).id}`, { name: s.fresh() }),
  "DELETE /v1/projects/{id}": async (s) => asKey(s, `DELETE /v1/projects/${(await newProject(s)).id}`, undefined),
  "POST /v1/plans": async (s) => asKey(s, "POST /v1/plans", { name: "Plan", slug: s.fresh() }),
  "PATCH /v1/plans/{id}": async (s) => asKey(s, `PATCH /v1/plans/${(await newPlan(s)).id}`, { name: s.fresh() }),
  "DELETE /v1/plans/{id}": async (s) => asKey(s, `DELETE /v1/plans/${(await newPlan(s)).id}`, undefined),
  "POST /v1/keys/{id}/quotas/{quota_id}/grants": async (s) =>
    asKey(s, `POST /v1/keys/${(await newMeteredKey(s)).id}/quotas/calls/grants`, { units: 5 }),
  "POST /v1/tenants/{id}/quotas/{quota_id}/grants": async (s) => {
    const { id } = await make(s, "POST /v1/tenants", { external_id: s.fresh(), quotas: QUOTAS });
    return asKey(s, `POST /v1/tenants/${id}/quotas/calls/grants`, { units: 5 });
  },
  "POST /v1/quota_grants/{id}/void": async (s) => {
    const { id } = await make(s, `POST /v1/keys/${(await newMeteredKey(s)).id}/quotas/calls/grants`, { units: 5 });
    return asKey(s, `POST /v1/quota_grants/${id}/void`);
  },
  "PATCH /v1/workspace": async (s) => asKey(s, "PATCH /v1/workspace", { name: s.fresh() }),
  "POST /v1/workspaces": async (s) => ({
    bearer: s.bootstrap,
    route: "POST /v1/workspaces",
    body: { name: "W", slug: s.fresh() },
  }),
  "POST /v1/invites": async (s) => asKey(s, "POST /v1/invites", { email: `${s.fresh()}@example.com`, role: "member" }),
  "POST /v1/invites/{id}/revoke": async (s) => {
    const { id } = await make(s, "POST /v1/invites", { email: `${s.fresh()}@example.com`, role: "member" });
    return asKey(s, `POST /v1/invites/${id}/revoke`);
  },
  "PATCH /v1/members/{userId}": async (s) =>
    asKey(s, `PATCH /v1/members/${(await newMember(s)).id}`, { role: "admin" }),
  "DELETE /v1/members/{userId}": async (s) => asKey(s, `DELETE /v1/members/${(await newMember(s)).id}`, undefined),
  "POST /v1/auth/users": async (s) => ({
    bearer: null,
    route: "POST /v1/auth/users",
    body: { email: `${s.fresh()}@example.com`, password: PASSWORD },
  }),
  "POST /v1/auth/sessions": async (s) => ({
    bearer: null,
    route: "POST /v1/auth/sessions",
    body: { email: s.owner.email, password: PASSWORD },
  }),
  "DELETE /v1/auth/sessions/current": async (s) => {
    const { session } = await logIn(s.world.call, s.owner.email);
    return { bearer: session, route: "DELETE /v1/auth/sessions/current" };
  },
  "DELETE /v1/auth/sessions/{id}": async (s) => {
    const { session_id } = await logIn(s.world.call, s.owner.email);
    return asOwner(s, `DELETE /v1/auth/sessions/${session_id}`);
  },
  "POST /v1/auth/sessions/current/workspace": async (s) =>
    asOwner(s, "POST /v1/auth/sessions/current/workspace", { workspace_id: s.world.workspace_id }),
  "PATCH /v1/auth/me": async (s) => asOwner(s, "PATCH /v1/auth/me", { name: s.fresh() }),
  "POST /v1/auth/me/password": async (s) => {
    const { session } = await newPerson(s);
    const body = { current_password: PASSWORD, password: `${PASSWORD} again` };
    return { bearer: session, route: "POST /v1/auth/me/password", body };
  },
  "POST /v1/auth/email_verifications": async (s) => {
    const email = `${s.fresh()}@example.com`;
    await must(s.world.call(null, "POST /v1/auth/users", { email, password: PASSWORD }));
    const { session } = await logIn(s.world.call, email);
    return { bearer: session, route: "POST /v1/auth/email_verifications", body: {} };
  },
  "POST /v1/auth/email_verifications/consume": async (s) => {
    const email = `${s.fresh()}@example.com`;
    await must(s.world.call(null, "POST /v1/auth/users", { email, password: PASSWORD }));
    const token = await mailedToken(s.dataDir, email);
    return { bearer: null, route: "POST /v1/auth/email_verifications/consume", body: { token } };
  },
  "POST /v1/auth/password_resets": async (s) => ({
    bearer: null,
    route: "POST /v1/auth/password_resets",
    body: { email: s.owner.email },
  }),
  "POST /v1/auth/password_resets/consume": async (s) => {
    const { email } = await newPerson(s);
    const before = await mailedToken(s.dataDir, email);
    await must(s.world.call(null, "POST /v1/auth/password_resets", { email }));
    const token = await mailedToken(s.dataDir, email, before);
    const body = { token, password: `${PASSWORD} again` };
    return { bearer: null, route: "POST /v1/auth/password_resets/consume", body };
  },
  "POST /v1/auth/invites/accept": async (s) => {
    const { email, session } = await newPerson(s);
    const { token } = await make(s, "POST /v1/invites", { email, role: "member" });
    return { bearer: session, route: "POST /v1/auth/invites/accept", body: { token } };
  },
  "POST /v1/embed_tokens": async (s) => {
    const { project_id, tenant_id } = s.world;
    await make(s, "PATCH /v1/workspace", { embed_origins: [ORIGIN] });
    return asKey(s, "POST /v1/embed_tokens", { project_id, tenant_id, env: "live", scopes: ["keys:read"] });
  },
  "POST /v1/embed/keys": async (s) => ({
    bearer: await newEmbedToken(s),
    route: "POST /v1/embed/keys",
    body: { name: s.fresh() },
    options: FROM_BROWSER,
  }),
  "POST /v1/embed/keys/{id}/rotate": async (s) => ({
    bearer: await newEmbedToken(s),
    route: `POST /v1/embed/keys/${(await newKey(s)).id}/rotate`,
    body: {},
    options: FROM_BROWSER,
  }),
  "POST /v1/embed/keys/{id}/revoke": async (s) => ({
    bearer: await newEmbedToken(s),
    route: `POST /v1/embed/keys/${(await newKey(s)).id}/revoke`,
    body: {},
    options: FROM_BROWSER,
  }),
  "POST /v1/idempotency/claim": async (s) =>
    asKey(s, "POST /v1/idempotency/claim", { scope_hash: hash(s.fresh()), env: "live", fingerprint: hash("f") }),
  "POST /v1/idempotency/complete": async (s) =>
    asKey(s, "POST /v1/idempotency/complete", { ...(await newClaim(s)), status: 200, headers: {}, body: "YQ==" }),
  "POST /v1/idempotency/heartbeat": async (s) => asKey(s, "POST /v1/idempotency/heartbeat", await newClaim(s)),
  "POST /v1/idempotency/release": async (s) => asKey(s, "POST /v1/idempotency/release", await newClaim(s)),
  "POST /v1/ingest/batch": async (s) => {
    const sdk = { name: "prove", version: "1.0.0" };
    const { project_id, tenant_id } = s.world;
    const about = { project_id, tenant_id, key_id: null, env: "live", method: "GET", path: "/", route: null };
    const event = { ...about, ts: new Date().toISOString(), status: 200, duration_ms: 1, degraded: false };
    const events = [{ ...event, request_id: s.fresh() }];
    return asKey(s, "POST /v1/ingest/batch", {
      object: "ingest_batch",
      protocol_version: 1,
      node_id: "n",
      sdk,
      events,
    });
  },
  "POST /v1/ratelimit/check": async (s) => {
    const { project_id, tenant_id } = s.world;
    return asKey(s, "POST /v1/ratelimit/check", { project_id, tenant_id, env: "live", limits: [RULE] });
  },
  "POST /v1/ratelimit/lease": async (s) => {
    const { project_id, tenant_id } = s.world;
    return asKey(s, "POST /v1/ratelimit/lease", { project_id, tenant_id, env: "live", limits: [RULE], want: 1 });
  },
  "POST /v1/ratelimit/return": async (s) => {
    const { project_id, tenant_id } = s.world;
    const want = { project_id, tenant_id, env: "live", limits: [RULE], want: 1 };
    const { lease_id } = await make(s, "POST /v1/ratelimit/lease", want);
    return asKey(s, "POST /v1/ratelimit/return", { lease_id, unused: 1 });
  },
  "POST /v1/webhooks/scanner/secret_scanning": async (s) => {
    const raw = JSON.stringify([{ token: (await newKey(s)).key, type: "keyrack_api_key", url: null }]);
    const route = "POST /v1/webhooks/scanner/secret_scanning";
    return { bearer: null, route, options: { raw, headers: headersFor(raw) } };
  },
};
