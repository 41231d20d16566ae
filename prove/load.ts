// Mixed load with a ledger: afterwards every acknowledged change must be stored, every other one completely or not at
// all, and none without its audit row. Each client works on its own records, so at most one change of a record is
// pending at any time.
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Raw, Row } from "../harness/databases/raw-sql.ts";
import { seeded, type Random } from "../harness/random.ts";
import type { Call, Reply } from "../harness/processes/send.ts";
import type { World } from "../harness/instances/world.ts";
import { telemetryBatch, telemetryEvent } from "../harness/telemetry.ts";

const hash = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Records by name: the acknowledged state, and the state that a pending request may have caused. */
export class Ledger {
  readonly acked = new Map<string, string>();
  readonly pending = new Map<string, string>();
  acknowledged = 0;
  operations = 0;
  events = { acked: 0, sent: 0 };
  /** Responses that no request of the load should get. */
  readonly odd: string[] = [];
}

type Client = {
  call: Call;
  world: World;
  ledger: Ledger;
  random: Random;
  /** Ids of this client's live keys and tenants. */
  keys: string[];
  tenants: string[];
  fresh: () => string;
};

const keyState = (name: unknown, revoked: unknown): string => `${String(name)} ${revoked ? "revoked" : "live"}`;
const tenantState = (name: unknown, deleted: unknown): string => `${String(name)} ${deleted ? "deleted" : "live"}`;

/** Requests a change of a record; when it is acknowledged, the ledger has the new state. */
async function change(
  { ledger }: Client,
  subject: string | null,
  state: string,
  ask: () => Promise<Reply>,
  noun = "",
): Promise<Reply["body"]> {
  if (subject !== null) ledger.pending.set(subject, state);
  const { status, body, text } = await ask();
  if (status >= 500) throw new Error(text); // not acknowledged: it may have been done nevertheless
  if (status >= 300) ledger.odd.push(`${status} ${text}`);
  else {
    ledger.acknowledged++;
    const name = subject ?? `${noun} ${body.id}`;
    ledger.acked.set(name, state);
    ledger.pending.delete(name);
  }
  return body;
}

type Op = (client: Client) => Promise<void>;

const mint: Op = async (client) => {
  const { call, world, keys } = client;
  const { project_id, tenant_id } = world;
  const name = client.fresh();
  const body = { project_id, tenant_id, env: "live", name };
  const made = await change(client, null, keyState(name, false), () => call(world.key, "POST /v1/keys", body), "key");
  keys.push(made.id);
};

const rename: Op = async (client) => {
  const { call, world, random, keys } = client;
  if (keys.length === 0) return mint(client);
  const [id, name] = [random.pick(keys), client.fresh()];
  await change(client, `key ${id}`, keyState(name, false), () => call(world.key, `PATCH /v1/keys/${id}`, { name }));
};

const revoke: Op = async (client) => {
  const { call, world, ledger, keys } = client;
  const id = keys.shift();
  if (id === undefined) return mint(client);
  const [name] = (ledger.acked.get(`key ${id}`) ?? "").split(" ");
  await change(client, `key ${id}`, keyState(name, true), () => call(world.key, `POST /v1/keys/${id}/revoke`, {}));
};

const rotate: Op = async (client) => {
  const { call, world, ledger, random, keys } = client;
  if (keys.length === 0) return mint(client);
  const id = random.pick(keys);
  const state = ledger.acked.get(`key ${id}`) ?? "";
  const made = await change(client, null, state, () => call(world.key, `POST /v1/keys/${id}/rotate`, {}), "key");
  keys.push(made.id);
};

const addTenant: Op = async (client) => {
  const { call, world, tenants } = client;
  const name = client.fresh();
  const ask = (): Promise<Reply> => call(world.key, "POST /v1/tenants", { external_id: name, name });
  const made = await change(client, null, tenantState(name, false), ask, "tenant");
  tenants.push(made.id);
};

const removeTenant: Op = async (client) => {
  const { call, world, ledger, tenants } = client;
  const id = tenants.shift();
  if (id === undefined) return addTenant(client);
  const [name] = (ledger.acked.get(`tenant ${id}`) ?? "").split(" ");
  await change(client, `tenant ${id}`, tenantState(name, true), () => call(world.key, `DELETE /v1/tenants/${id}`));
};

/** A claim and its completion: once acknowledged, the response must be replayed. */
const claim: Op = async (client) => {
  const { call, world, random } = client;
  const scope = { scope_hash: hash(client.fresh()), env: "live" };
  const ask = (): Promise<Reply> => call(world.key, "POST /v1/idempotency/claim", { ...scope, fingerprint: hash("f") });
  const { lock_token } = await change(client, `claim ${scope.scope_hash}`, "claimed", ask);
  const status = random.int(200, 299);
  const done = { ...scope, lock_token, status, headers: {}, body: "YQ==" };
  await change(client, `claim ${scope.scope_hash}`, String(status), () =>
    call(world.key, "POST /v1/idempotency/complete", done),
  );
};

const ingest: Op = async ({ call, world, ledger, random, keys, fresh }) => {
  const { project_id, tenant_id, key } = world;
  const events = Array.from({ length: random.int(1, 20) }, () =>
    telemetryEvent({
      ts: new Date().toISOString(),
      project_id,
      tenant_id,
      key_id: keys[0] ?? null,
      request_id: fresh(),
    }),
  );
  const body = telemetryBatch(events);
  ledger.events.sent += events.length;
  const { status, text } = await call(key, "POST /v1/ingest/batch", body);
  if (status >= 500) throw new Error(text);
  if (status === 202) ledger.events.acked += events.length;
  else if (status === 429) ledger.events.sent -= events.length;
  else ledger.odd.push(`${status} ${text}`);
};

const check: Op = async ({ call, world, ledger }) => {
  const limits = [{ id: "load", limit: 1_000_000, window_ms: 60_000, algorithm: "sliding", scope: "key" }];
  const body = { project_id: world.project_id, env: "live", key_id: world.tenant_id, limits };
  const { status, text } = await call(world.key, "POST /v1/ratelimit/check", body);
  if (status >= 500) throw new Error(text);
  if (status !== 200) ledger.odd.push(`${status} ${text}`);
};

const OPS: readonly Op[] = [mint, mint, rename, revoke, rotate, addTenant, removeTenant, claim, ingest, check];

type LoadOptions = {
  call: Call;
  world: World;
  ledger: Ledger;
  seed: number;
  clients: number;
  /** Minimum time between two operations of a client; read before each. */
  paceMs?: () => number;
  /** Continues after a request without a response; otherwise the client ends. */
  patient?: boolean;
};

/** Runs clients until `stop` aborts or the server is gone. */
export async function runLoad({ paceMs = () => 0, ...options }: LoadOptions, stop: AbortSignal): Promise<void> {
  const { call, world, ledger, seed, clients, patient } = options;
  const one = async (n: number): Promise<void> => {
    let names = 0;
    const fresh = (): string => `s${seed}c${n}n${names++}`;
    const random = seeded(seed * 1_000 + n);
    const client: Client = { call, world, ledger, random, keys: [], tenants: [], fresh };
    while (!stop.aborted) {
      const started = performance.now();
      try {
        await random.pick(OPS)(client);
        ledger.operations++;
      } catch (error) {
        if (!patient) return;
        client.keys.length = client.tenants.length = 0; // the audit finds out their state
        await sleep(50);
        if (error instanceof TypeError && !/fetch failed/.test(error.message)) throw error;
      }
      const rest = started + paceMs() - performance.now();
      if (rest > 0) await sleep(rest);
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, n) => one(n)));
}

async function readStates(raw: Raw, workspace_id: string): Promise<Map<string, string>> {
  const all = (sql: string): Promise<Row[]> => raw.all(sql, [workspace_id]);
  const keys = await all("select id, name, revoked_at from api_keys where workspace_id = $1");
  const tenants = await all("select id, name, deleted_at from tenants where workspace_id = $1");
  const claims = await all("select scope_hash, status from idempotency_records where workspace_id = $1");
  return new Map([
    ...keys.map(({ id, name, revoked_at }) => [`key ${String(id)}`, keyState(name, revoked_at)] as const),
    ...tenants.map(({ id, name, deleted_at }) => [`tenant ${String(id)}`, tenantState(name, deleted_at)] as const),
    ...claims.map(({ scope_hash, status }) => [`claim ${String(scope_hash)}`, String(status ?? "claimed")] as const),
  ]);
}

/** Each record has its audit row, and each audit row its record. */
async function compareAudit(raw: Raw, workspace_id: string): Promise<string[]> {
  const count = async (sql: string): Promise<number> => Number((await raw.all(sql, [workspace_id]))[0]?.n);
  const rows = await raw.all("select action, count(*) as n from audit_log where workspace_id = $1 group by action", [
    workspace_id,
  ]);
  const recorded = new Map(rows.map(({ action, n }) => [String(action), Number(n)]));
  const of = (...actions: string[]): number => actions.reduce((sum, action) => sum + (recorded.get(action) ?? 0), 0);
  const pairs: [string, number, number][] = [
    [
      "keys",
      await count("select count(*) as n from api_keys where workspace_id = $1"),
      of("api_key.created", "api_key.rotated"),
    ],
    [
      "revoked keys",
      await count("select count(*) as n from api_keys where workspace_id = $1 and revoked_at is not null"),
      of("api_key.revoked"),
    ],
    ["tenants", await count("select count(*) as n from tenants where workspace_id = $1"), of("tenant.created")],
    [
      "deleted tenants",
      await count("select count(*) as n from tenants where workspace_id = $1 and deleted_at is not null"),
      of("tenant.deleted"),
    ],
  ];
  return pairs
    .filter(([, there, audited]) => there !== audited)
    .map(([what, there, audited]) => `${there} ${what}, ${audited} audit rows`);
}

/** A batch is counted once and completely: receipts and monthly usage agree. */
async function compareEvents(raw: Raw, workspace_id: string, { events }: Ledger): Promise<string[]> {
  const sum = async (sql: string): Promise<number> =>
    Math.round(Number((await raw.all(sql, [workspace_id]))[0]?.n ?? 0));
  const counted = await sum("select sum(requests) as n from usage_tenant_months where workspace_id = $1");
  const receipts = await sum("select sum(accepted) as n from ingest_batches where workspace_id = $1");
  const wrong: string[] = [];
  if (counted !== receipts) wrong.push(`${counted} events counted, receipts for ${receipts}`);
  if (counted < events.acked || counted > events.sent)
    wrong.push(`${counted} events counted, ${events.acked} acknowledged of ${events.sent} sent`);
  return wrong;
}

type Audit = { lost: string[]; wrong: string[]; records: number };

/**
 * Compares the database with the ledger, then sets the ledger to the stored state for the next round. Claims and
 * receipts are kept for a day: when time jumps, `lasting` limits the comparison to what is kept for ever.
 */
export async function auditLedger(
  raw: Raw,
  { workspace_id }: World,
  ledger: Ledger,
  { lasting = false } = {},
): Promise<Audit> {
  const states = await readStates(raw, workspace_id);
  const lost: string[] = [];
  for (const [subject, acked] of ledger.acked) {
    if (lasting && subject.startsWith("claim ")) continue;
    const state = states.get(subject);
    if (state !== acked && (state === undefined || state !== ledger.pending.get(subject)))
      lost.push(`${subject} is ${state ?? "gone"}, not ${acked}`);
  }
  const wrong = [
    ...(await compareAudit(raw, workspace_id)),
    ...(lasting ? [] : await compareEvents(raw, workspace_id, ledger)),
    ...ledger.odd.splice(0),
  ];
  ledger.pending.clear();
  for (const [subject, state] of states) ledger.acked.set(subject, state);
  return { lost, wrong, records: states.size };
}
