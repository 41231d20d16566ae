// A deployment filled through its own API, so that every row is one that a release could have written, and what its
// users hold afterwards: credentials, receipts, and the answers they got. A later release must still honour all of it.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { send, type Call, type Reply } from "../harness/processes/send.ts";
import type { DeploymentFacts, WorkspaceFacts } from "../harness/instances/release-data.ts";
import { FIXTURE_MASTER_KEY, makePerson, makeWorld, must, PASSWORD } from "../harness/instances/world.ts";
import { telemetryBatch, telemetryEvent } from "../harness/telemetry.ts";
import { loadSettings } from "../src/config/load.ts";
import { createLog } from "../src/platform/log.ts";
import { startInstance, type RunningInstance } from "../src/server/start.ts";

const HASH = { scope_hash: "a".repeat(64), fingerprint: "b".repeat(64) };

/** Starts a deployment in `dir`, fills it, and calls `finish` before it is stopped. */
export async function fillDeployment(
  dir: string,
  database_url: string | null,
  finish: (app: RunningInstance) => Promise<void> = async () => {},
): Promise<DeploymentFacts> {
  writeFileSync(join(dir, "master.key"), FIXTURE_MASTER_KEY, { mode: 0o600 });
  const flags = { data_dir: dir, port: "0", throttle: "off", backup_every: "off", restore_test_every: "off" } as const;
  const { settings } = loadSettings({ env: {}, flags: { ...flags, ...(database_url && { database_url }) }, cwd: dir });
  const app = await startInstance({ settings, log: createLog({ level: "error" }) });
  try {
    const call: Call = (bearer, route, body, options) => send(app.url, bearer, route, body, options);
    const workspaces: WorkspaceFacts[] = [];
    for (const slug of ["first", "second"]) workspaces.push(await fillWorkspace(call, app.bootstrap.token ?? "", slug));
    const { email, session } = await makePerson(call, dir, "ada@example.com");
    await must(call(session, "POST /v1/workspaces", { name: "Ada's", slug: "adas" }));
    await must(call(null, "POST /v1/auth/password_resets", { email }));
    await app.idle();
    await finish(app);
    return { workspaces, people: [{ email, password: PASSWORD, session }] };
  } finally {
    await app.stop();
  }
}

async function fillWorkspace(call: Call, bootstrap: string, slug: string): Promise<WorkspaceFacts> {
  const { key, workspace_id, project_id, tenant_id } = await makeWorld(call, bootstrap, slug);
  const ask = (route: string, body?: unknown): Promise<Reply["body"]> => must(call(key, route, body));
  await ask("PATCH /v1/workspace", { embed_origins: [`https://${slug}.example.com`] });
  await ask(`PATCH /v1/tenants/${tenant_id}`, { meta: { plan: "gold" } });
  const want = { project_id, tenant_id, env: "live", scopes: ["orders:read"] };
  const keys: WorkspaceFacts["keys"] = [];
  for (let i = 0; i < 4; i++) {
    const made = await ask("POST /v1/keys", { ...want, name: `key ${i}` });
    keys.push({ id: made.id, key: made.key, admitted: i > 1 });
  }
  await ask(`POST /v1/keys/${keys[0]?.id}/revoke`, { reason: "leaked" });
  const next = await ask(`POST /v1/keys/${keys[1]?.id}/rotate`, { overlap_hours: 0 });
  keys.push({ id: next.id, key: next.key, admitted: true });
  const test = await ask("POST /v1/secret_keys", { env: "test" });
  const revoked = await ask("POST /v1/secret_keys", { env: "live" });
  await ask(`POST /v1/secret_keys/${revoked.id}/revoke`, {});
  await ask("POST /v1/invites", { email: "eve@example.com", role: "member" });
  await ask(`GET /v1/policy/delta?project_id=${project_id}&since=1&node=node-1`);
  const answered = await answerRequests(call, key, { project_id, tenant_id, key_id: keys[2]?.id ?? "" });
  const read: WorkspaceFacts["read"] = [];
  for (const path of [
    `/v1/keys/${keys[2]?.id}/usage?days=2`,
    "/v1/usage/tenants?months=2",
    "/v1/usage/billing?months=2",
  ])
    read.push({ route: `GET ${path}`, body: await ask(`GET ${path}`) });
  const { version } = await ask(`GET /v1/policy/snapshot?project_id=${project_id}`);
  const checkpoint = await call(key, "GET /v1/audit_logs/checkpoint");
  return {
    id: workspace_id,
    slug,
    secret_keys: { live: key, test: test.key, revoked: revoked.key },
    project_id,
    tenant_id,
    policy_version: version,
    keys,
    answered,
    read,
    checkpoint: { note: checkpoint.text, vkey: checkpoint.headers.get("audit-vkey") ?? "" },
  };
}

/** A counted batch, a claimed and completed request, and a request with an Idempotency-Key. */
async function answerRequests(
  call: Call,
  key: string,
  ids: { project_id: string; tenant_id: string; key_id: string },
): Promise<WorkspaceFacts["answered"]> {
  const answered: WorkspaceFacts["answered"] = [];
  const ask = async (route: string, content: unknown, headers: Record<string, string> = {}): Promise<Reply["body"]> => {
    const raw = JSON.stringify(content);
    const { status, body, text } = await call(key, route, undefined, { raw, headers });
    if (status >= 300) throw new Error(`${route}: ${status} ${text}`);
    answered.push({ route, raw, headers, status, body });
    return body;
  };
  const event = telemetryEvent({ ts: new Date().toISOString(), request_id: "r1", sample_rate: 0.5, ...ids });
  await ask("POST /v1/ingest/batch", telemetryBatch([event]));
  await ask("POST /v1/tenants", { external_id: "retried" }, { "idempotency-key": "tenant-retried" });
  const { scope_hash } = HASH;
  const { lock_token } = await must(call(key, "POST /v1/idempotency/claim", { ...HASH, env: "live" }));
  const done = { env: "live", scope_hash, lock_token, status: 201, body: "eyJvayI6dHJ1ZX0=" };
  await must(call(key, "POST /v1/idempotency/complete", done));
  await ask("POST /v1/idempotency/claim", { ...HASH, env: "live" });
  return answered;
}
