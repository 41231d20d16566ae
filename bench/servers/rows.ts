// The limit of a mint on SQLite: bare node:http that writes the rows of a mint into the same tables, in groups, and
// responds when they are on disk. Without credential, validation, secret and hash chain only HTTP and SQLite are left.
import { hash as digest, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startLocalInstance } from "../../harness/instances/local-instance.ts";
import { createIdGenerator } from "../../src/kernel/ids.ts";
import { WalSync } from "../../src/store/sqlite/wal-sync.ts";
import { openWriter } from "../../src/store/sqlite/driver.ts";
import { MINT } from "../mint.ts";

type Cells = Record<string, string | number | null>;

const GROUP_MAX = 200;
/** As often as Keyrack checkpoints. */
const CHECKPOINT_GROUPS = 200;

const dir = mkdtempSync(join(tmpdir(), "keyrack-bench-"));
const file = join(dir, "keyrack.db");

/** One mint by Keyrack itself: a template for the rows to write. */
async function mintOnce(): Promise<string> {
  const { app, call } = await startLocalInstance({ target: { kind: "sqlite", file }, dir });
  const made = await call(app.bootstrap.token, "POST /v1/workspaces", { name: "Bench", slug: "bench" });
  const bearer = made.body.secret_key.key as string;
  const project = await call(bearer, "POST /v1/projects", { name: "Bench", slug: "bench" });
  const tenant = await call(bearer, "POST /v1/tenants", { external_id: "bench" });
  const minted = await call(bearer, "POST /v1/keys", {
    project_id: project.body.id,
    tenant_id: tenant.body.id,
    ...MINT,
  });
  await app.stop();
  return minted.text;
}

const answer = await mintOnce();
const db = openWriter(file);
const walSync = new WalSync(file);

function insertLike(table: string, row: Cells): (cells: Cells) => void {
  const names = Object.keys(row);
  const insert = db.prepare(`insert into ${table} (${names.join()}) values (${names.map(() => "?").join()})`);
  return (cells) => insert.run(names.map((name) => cells[name] ?? row[name] ?? null));
}

const first = (sql: string): Cells => db.prepare(sql).get() as Cells;
const key = first("select * from api_keys");
const audit = first("select * from audit_log where action = 'api_key.created'");
const insertKey = insertLike("api_keys", key);
const insertAudit = insertLike("audit_log", audit);
const insertVersion = insertLike("policy_versions", first("select * from policy_versions order by version desc"));
const moveHead = db.prepare("update audit_heads set seq = ?, hash = ? where workspace_id = ?");
const moveVersion = db.prepare("update projects set policy_version = ? where id = ?");
const newId = createIdGenerator(randomBytes);
let seq = Number(audit.seq);
let hash = String(audit.hash);
let version = Number(key.policy_version);

function writeGroup(size: number): void {
  db.exec("begin immediate");
  version++;
  for (let i = 0; i < size; i++) {
    const id = newId(Date.now());
    insertKey({ id, lookup_hash: randomBytes(32).toString("hex"), policy_version: version, created_at: Date.now() });
    const prev_hash = hash;
    hash = digest("sha256", prev_hash);
    insertAudit({ id: newId(Date.now()), seq: ++seq, prev_hash, hash, target_id: id });
  }
  moveHead.run(seq, hash, audit.workspace_id);
  insertVersion({ version });
  moveVersion.run(version, key.project_id);
  db.exec("commit");
}

const waiting: ServerResponse[] = [];
let groups = 0;
let draining = false;

async function drain(): Promise<void> {
  if (draining) return;
  draining = true;
  while (waiting.length > 0) {
    const group = waiting.splice(0, GROUP_MAX);
    writeGroup(group.length);
    await walSync.sync();
    for (const res of group) {
      res.writeHead(201, { "content-type": "application/json", "content-length": Buffer.byteLength(answer) });
      res.end(answer);
    }
    if (++groups % CHECKPOINT_GROUPS === 0) await walSync.checkpoint();
  }
  draining = false;
}

const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on("data", (chunk: Buffer) => chunks.push(chunk));
  req.on("end", () => {
    JSON.parse(Buffer.concat(chunks).toString());
    waiting.push(res);
    void drain();
  });
});
process.on("SIGTERM", () => {
  rmSync(dir, { recursive: true, force: true });
  process.exit(0);
});
server.listen(0, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
