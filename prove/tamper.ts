// Tampering with the audit log: every change by an attacker with database access must be detected; what the chain alone
// cannot show (truncation, or re-hashing all of it) must be detected by a checkpoint saved elsewhere.
import { hash as digest } from "node:crypto";
import { verifyChain } from "../src/domain/audit/chain-verification.ts";
import { expectedByCheckpoint, latestCheckpoint } from "../src/domain/audit/checkpoints.ts";
import { createKey, revokeKey } from "../src/domain/keys/keys.ts";
import { createProject } from "../src/domain/workspaces/projects.ts";
import { createTenant } from "../src/domain/workspaces/tenants.ts";
import { auditPreimage, GENESIS_HASH, type AuditRow } from "../src/kernel/audit/chain.ts";
import { formatTimestamp } from "../src/kernel/timestamps.ts";
import { openSource } from "../src/store/offline/source.ts";
import type { ExpectedCheckpoint } from "../src/store/audit/verify.ts";
import { verifyStoredChain } from "../src/store/audit/verify.ts";
import { rounds, type Campaign } from "./campaign.ts";
import { openTestServices, testClock, vendorOf } from "../harness/instances/services.ts";
import { seeded, type Random } from "../harness/random.ts";
import { dropAppendOnly, openRaw, type Raw, type Row } from "../harness/databases/raw-sql.ts";

/** The stored rows of a chain, to be modified. */
type Chain = { rows: Row[]; head: Row | null };

const TEXTS = ["id", "actor_type", "actor_id", "action", "target_type", "target_id", "payload", "prev_hash", "hash"];
/** Every n-th round uses the real entry point with its worker thread instead of the function it runs. */
const WHOLE_WAY_EVERY = 100;

function otherText(random: Random, text: string): string | null {
  const at = random.int(0, Math.max(0, text.length - 1));
  return random.pick<() => string | null>([
    () => text.slice(0, at) + String.fromCharCode(random.int(32, 126)) + text.slice(at + 1),
    () => text.slice(0, at) + text.slice(at + 1),
    () => `${text.slice(0, at)}${random.pick([" ", "é", "\u2028", "{}", "0"])}${text.slice(at)}`,
    () => text.toUpperCase(),
    () => null,
    () => "",
  ])();
}

/** The same JSON spelled differently: the hash is over the stored text. */
function reworded(random: Random, text: string): string {
  return random.pick([
    () => text.replace(":", ": "),
    () => JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(text) as object).toReversed())),
    () => text.replace(/[a-z]/, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`),
    () => `${text} `,
  ])();
}

/** Re-hashes the chain from a row on, as an attacker would who knows the format but not the signing key. */
function rechain({ rows, head }: Chain, from: number): void {
  for (const [i, row] of rows.entries()) {
    if (i < from) continue;
    const prev_hash = i === 0 ? GENESIS_HASH : String(rows[i - 1]?.hash);
    const hashed = { ...row, occurred_at: formatTimestamp(Number(row.occurred_at)), prev_hash, seq: i + 1 };
    const hash = digest("sha256", auditPreimage(hashed as unknown as AuditRow, String(row.payload)));
    Object.assign(row, { prev_hash, seq: i + 1, hash });
  }
  if (head) Object.assign(head, { seq: rows.length, hash: rows.at(-1)?.hash ?? GENESIS_HASH });
}

type Tampering = { name: string; needsCheckpoint?: true; apply(chain: Chain, random: Random): void };

const anyRow = ({ rows }: Chain, random: Random): Row => random.pick(rows);

const TAMPERINGS: readonly Tampering[] = [
  {
    name: "a text changed",
    apply: (chain, random) => {
      const [row, column] = [anyRow(chain, random), random.pick(TEXTS)];
      row[column] = row[column] === null ? "x" : otherText(random, String(row[column]));
    },
  },
  {
    name: "a number changed",
    apply: (chain, random) => {
      const [row, column] = [anyRow(chain, random), random.pick(["occurred_at", "seq"])];
      row[column] = Number(row[column]) + random.pick([-1, 1, 1000, -1000, 86_400_000]);
    },
  },
  {
    name: "a payload told in other words",
    apply: (chain, random) => {
      const row = anyRow(chain, random);
      row.payload = reworded(random, String(row.payload));
    },
  },
  {
    name: "a row deleted",
    apply: ({ rows }, random) => void rows.splice(random.int(0, rows.length - 1), 1),
  },
  {
    name: "a row deleted and the rest renumbered",
    apply: ({ rows, head }, random) => {
      rows.splice(random.int(0, rows.length - 1), 1);
      for (const [i, row] of rows.entries()) row.seq = i + 1;
      if (head) head.seq = rows.length;
    },
  },
  {
    name: "two rows swapped",
    apply: ({ rows }, random) => {
      const [a, b] = [random.pick(rows), random.pick(rows)];
      [a.seq, b.seq] = [b.seq ?? 0, a.seq ?? 0];
    },
  },
  {
    name: "two rows' contents swapped",
    apply: ({ rows }, random) => {
      const [a, b] = [random.pick(rows), random.pick(rows)];
      for (const column of ["action", "target_id", "payload", "actor_id"])
        [a[column], b[column]] = [b[column] ?? null, a[column] ?? null];
    },
  },
  {
    name: "a row forged in between",
    apply: ({ rows, head }, random) => {
      const at = random.int(0, rows.length);
      const copy = { ...random.pick(rows), id: `forged-${random.int(0, 1e9)}`, hash: digest("sha256", String(at)) };
      rows.splice(at, 0, copy);
      for (const [i, row] of rows.entries()) row.seq = i + 1;
      if (head) head.seq = rows.length;
    },
  },
  {
    name: "a row forged at the end with a right hash",
    apply: (chain, random) => {
      const { rows } = chain;
      rows.push({ ...random.pick(rows), id: `forged-${random.int(0, 1e9)}` });
      rechain({ rows, head: null }, rows.length - 1);
    },
  },
  {
    name: "the newest rows deleted, the head left",
    apply: ({ rows }, random) => void rows.splice(random.int(0, rows.length - 1)),
  },
  {
    name: "the head moved",
    apply: ({ head }, random) => {
      if (head) head.seq = Number(head.seq) + random.pick([-1, 1, -5, 100]);
    },
  },
  {
    name: "the head's hash changed",
    apply: ({ head }, random) => {
      if (head) head.hash = digest("sha256", String(random.next()));
    },
  },
  {
    name: "the head deleted",
    apply: (chain) => {
      chain.head = null;
    },
  },
  {
    name: "the chain truncated with its head",
    needsCheckpoint: true,
    apply: (chain, random) => {
      chain.rows.splice(random.int(0, chain.rows.length - 1));
      rechain(chain, chain.rows.length);
    },
  },
  {
    name: "a row changed and the chain hashed again",
    needsCheckpoint: true,
    apply: (chain, random) => {
      const at = random.int(0, chain.rows.length - 1);
      Object.assign(chain.rows[at] ?? {}, { target_id: `other-${random.int(0, 1e9)}` });
      rechain(chain, at);
    },
  },
  {
    name: "a row deleted and the chain hashed again",
    needsCheckpoint: true,
    apply: (chain, random) => {
      const at = random.int(0, chain.rows.length - 1);
      chain.rows.splice(at, 1);
      rechain(chain, at);
    },
  },
];

async function readChain(raw: Raw, workspace_id: string): Promise<Chain> {
  const rows = await raw.all("select * from audit_log where workspace_id = $1 order by seq", [workspace_id]);
  const [head = null] = await raw.all("select * from audit_heads where workspace_id = $1", [workspace_id]);
  return { rows, head };
}

async function writeChain(raw: Raw, workspace_id: string, { rows, head }: Chain): Promise<void> {
  const insert = async (table: string, rows: Row[]): Promise<void> => {
    const names = Object.keys(rows[0] ?? {});
    const holes = rows.map(
      (_, instance) => `(${names.map((_name, i) => `$${instance * names.length + i + 1}`).join(", ")})`,
    );
    const values = rows.flatMap((row) => Object.values(row));
    if (rows.length > 0) await raw.all(`insert into ${table} (${names.join(", ")}) values ${holes.join(", ")}`, values);
  };
  await raw.all("begin");
  try {
    for (const table of ["audit_log", "audit_heads"])
      await raw.all(`delete from ${table} where workspace_id = $1`, [workspace_id]);
    await insert("audit_log", rows);
    if (head) await insert("audit_heads", [head]);
    await raw.all("commit");
  } catch (error) {
    await raw.all("rollback");
    throw error;
  }
}

export const tamper: Campaign = {
  name: "tamper",
  promise: "P3",
  claim: "Every change to the audit log is found; truncation and re-hashing are found against a saved checkpoint.",
  rounds: 10_000,
  round: "change",
  backends: ["sqlite", "postgres"],
  async run(options, tally) {
    const { scratch } = options;
    await using fixture = await openTestServices(scratch.target, { data_dir: scratch.dir }, testClock());
    const ctx = await vendorOf(fixture.services);
    const { workspace_id } = ctx.actor;
    const project = await createProject(ctx, { name: "p", slug: "ppp" });
    for (let i = 0; i < 8; i++) {
      const tenant = await createTenant(ctx, { external_id: `t${i}` });
      const key = await createKey(ctx, { project_id: project.id, tenant_id: tenant.id, env: "live" });
      if (i % 3 === 0) await revokeKey(ctx, key.id, "why not");
    }
    await latestCheckpoint(fixture.services, workspace_id);
    const saved = await expectedByCheckpoint(fixture.services, workspace_id);
    await dropAppendOnly(scratch.target);
    const raw = await openRaw(scratch.target);
    const source = await openSource(scratch.target);
    const verified = async (seed: number, expected: ExpectedCheckpoint[]): Promise<boolean> =>
      seed % WHOLE_WAY_EVERY === 0 && expected.length > 0
        ? (await verifyChain(fixture.services, workspace_id)).verified
        : (await verifyStoredChain(source, workspace_id, expected)).reason === null;
    const intact = await readChain(raw, workspace_id);
    try {
      for (const seed of rounds(options, tally)) {
        const random = seeded(seed);
        const chain = structuredClone(intact);
        const tampering = random.pick(TAMPERINGS);
        tampering.apply(chain, random);
        try {
          if (JSON.stringify(chain) === JSON.stringify(intact)) continue; // a change without effect
          await writeChain(raw, workspace_id, chain);
        } catch {
          tally.count("refused by the database");
          continue;
        }
        if (await verified(seed, saved)) tally.failed(seed, `${tampering.name} was not detected`);
        else tally.count("found");
        if (tampering.needsCheckpoint) {
          if (!(await verified(seed, []))) tally.failed(seed, `${tampering.name} was detected without the checkpoint`);
          tally.count("found only by the checkpoint");
        }
        await writeChain(raw, workspace_id, intact);
        if (seed % 50 === 0 && !(await verified(1, saved))) tally.failed(seed, "the untouched chain does not verify");
      }
    } finally {
      await source.close();
      await raw.close();
    }
  },
};
