// npm run fixtures: writes harness/fixtures/schema-NNNN.db.gz for each migration that has none: a filled database as a
// release with that schema would have written it. An existing fixture is never rewritten: it represents deployed
// databases.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import Database from "better-sqlite3";
import { startInstance } from "../src/server/start.ts";
import { loadSettings } from "../src/config/load.ts";
import { createLog } from "../src/platform/log.ts";
import { copyOrder } from "../src/store/offline/copy.ts";
import { openCopySource } from "../src/store/offline/copy-source.ts";
import { openCopySink } from "../src/store/offline/copy-sink.ts";
import { loadMigrations, migrate } from "../src/store/schema/migrate.ts";
import { SqliteDriver } from "../src/store/sqlite/driver.ts";

const folder = fileURLToPath(new URL("../harness/fixtures", import.meta.url));
/** For tests only. */
export const FIXTURE_MASTER_KEY = "07".repeat(32);
const fileOf = (version: number): string => join(folder, `schema-${String(version).padStart(4, "0")}.db.gz`);

type Answer = Record<string, unknown> & { id: string; token: string };

/** Fills a deployment through its own API, so that every row is one that a release could have written. */
async function fill(dir: string): Promise<void> {
  writeFileSync(join(dir, "master.key"), FIXTURE_MASTER_KEY, { mode: 0o600 });
  const flags = { data_dir: dir, port: "0", throttle: "off", backup_every: "off", restore_test_every: "off" } as const;
  const { settings } = loadSettings({ env: {}, flags, cwd: dir });
  const app = await startInstance({ settings, log: createLog({ level: "error" }) });
  const call = async (bearer: string | null, method: string, path: string, body?: unknown): Promise<Answer> => {
    const response = await fetch(app.url + path, {
      method,
      headers: {
        ...(bearer && { authorization: `Bearer ${bearer}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const answer: unknown = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
    return answer as Answer;
  };
  for (const slug of ["first", "second"]) {
    const made = await call(app.bootstrap.token, "POST", "/v1/workspaces", { name: slug, slug });
    await fillWorkspace((made.secret_key as { key: string }).key, slug, call);
  }
  const email = "ada@example.com";
  const password = "a long enough pass phrase 17";
  await call(null, "POST", "/v1/auth/users", { email, password });
  await app.idle();
  const mail = join(dir, "mail");
  const text = readdirSync(mail)
    .map((name) =>
      readFileSync(join(mail, name), "utf8")
        .replace(/=\r?\n/g, "")
        .replaceAll("=3D", "="),
    )
    .join("\n");
  const token = /verify\?token=([\w.-]+)/.exec(text)?.[1];
  await call(null, "POST", "/v1/auth/email_verifications/consume", { token });
  const session = await call(null, "POST", "/v1/auth/sessions", { email, password });
  await call(session.token, "POST", "/v1/workspaces", { name: "Ada's", slug: "adas" });
  await call(null, "POST", "/v1/auth/password_resets", { email });
  await app.idle();
  await app.stop();
}

async function fillWorkspace(
  key: string,
  slug: string,
  call: (bearer: string, method: string, path: string, body?: unknown) => Promise<Answer>,
): Promise<void> {
  await call(key, "PATCH", "/v1/workspace", { embed_origins: [`https://${slug}.example.com`] });
  const project = await call(key, "POST", "/v1/projects", { name: "API", slug: "api" });
  const tenant = await call(key, "POST", "/v1/tenants", { external_id: "customer", meta: { plan: "gold" } });
  const want = { project_id: project.id, tenant_id: tenant.id, env: "live", scopes: ["orders:read"] };
  const keys: Answer[] = [];
  for (let i = 0; i < 4; i++) keys.push(await call(key, "POST", "/v1/keys", { ...want, name: `key ${i}` }));
  await call(key, "POST", `/v1/keys/${keys[0]?.id}/revoke`, { reason: "leaked" });
  await call(key, "POST", `/v1/keys/${keys[1]?.id}/rotate`, {});
  await call(key, "POST", "/v1/secret_keys", { env: "test" });
  await call(key, "POST", "/v1/invites", { email: "eve@example.com", role: "member" });
  await call(key, "GET", `/v1/policy/delta?project_id=${project.id}&since=1&node=node-1`);
  const scope = { env: "live", scope_hash: "a".repeat(64), fingerprint: "b".repeat(64) };
  const claimed = await call(key, "POST", "/v1/idempotency/claim", scope);
  await call(key, "POST", "/v1/idempotency/complete", {
    env: "live",
    scope_hash: scope.scope_hash,
    lock_token: claimed.lock_token,
    status: 201,
    body: "eyJvayI6dHJ1ZX0=",
  });
  const event = {
    ts: new Date().toISOString(),
    project_id: project.id,
    env: "live",
    tenant_id: tenant.id,
    key_id: keys[2]?.id,
    method: "GET",
    path: "/orders",
    route: null,
    status: 200,
    duration_ms: 1.5,
    degraded: false,
    request_id: "r1",
    sample_rate: 0.3,
  };
  const sdk = { name: "fixture", version: "1" };
  const batch = { object: "ingest_batch", protocol_version: 1, node_id: "node-1", sdk, events: [event] };
  await call(key, "POST", "/v1/ingest/batch", batch);
}

/** Copies the rows of the full database, limited to the tables and columns of an older schema. */
async function writeFixture(full: string, version: number, work: string): Promise<void> {
  const file = join(work, `${version}.db`);
  const driver = new SqliteDriver(file);
  const past = loadMigrations("sqlite").filter((each) => each.version <= version);
  await migrate(driver, (sql) => driver.execScript(sql), Date.UTC(2026, 10, 1), past);
  await driver.close();
  const source = await openCopySource({ kind: "sqlite", file: full });
  const old = await openCopySource({ kind: "sqlite", file });
  const tables = await copyOrder(old.source);
  const columnsOf = new Map<string, string[]>();
  for (const table of tables) {
    const rows = await old.source.all<{ name: string }>(`select name from pragma_table_info('${table}')`, []);
    columnsOf.set(
      table,
      rows.map(({ name }) => name),
    );
  }
  await old.close();
  const sink = await openCopySink({ kind: "sqlite", file });
  for (const table of tables) {
    for await (const { columns, rows } of source.pages(table)) {
      const kept = columns.flatMap((name, i) => (columnsOf.get(table)?.includes(name) ? [i] : []));
      await sink.insert(
        table,
        kept.map((i) => columns[i] ?? ""),
        rows.map((row) => kept.map((i) => row[i] ?? null)),
      );
    }
  }
  await sink.end("commit");
  await source.close();
  const db = new Database(file);
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.pragma("journal_mode=DELETE");
  db.exec("vacuum");
  db.close();
  writeFileSync(fileOf(version), gzipSync(readFileSync(file), { level: 9 }));
}

async function main(): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const missing = loadMigrations("sqlite").filter(({ version }) => !existsSync(fileOf(version)));
  if (missing.length === 0) return console.log("Every migration has its fixture.");
  const work = mkdtempSync(join(tmpdir(), "keyrack-fixtures-"));
  try {
    await fill(work);
    for (const { version } of missing) {
      await writeFixture(join(work, "keyrack.db"), version, work);
      console.log(fileOf(version));
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
