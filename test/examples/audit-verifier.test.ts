// The stand-alone verifier of examples/audit-verifier: an export and a checkpoint are verified without Keyrack.
import { createHash, createPrivateKey, createPublicKey, sign } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { runScript, runScriptHere, type RanScript } from "../../harness/scripts.ts";
import { fromHex, utf8 } from "../../src/kernel/crypto/bytes.ts";
import { type AuditRow, auditPreimage, GENESIS_HASH, NIL_WORKSPACE } from "../../src/kernel/audit/chain.ts";
import { MerkleTree } from "../../src/kernel/crypto/merkle.ts";
import { formatCheckpoint, formatNote, computeKeyId, formatVkey } from "../../src/kernel/crypto/signed-note.ts";

const SCRIPT = join(import.meta.dirname, "../../examples/audit-verifier/verify.mjs");
const folder = mkdtempSync(join(tmpdir(), "keyrack-verifier-"));
afterAll(() => rmSync(folder, { recursive: true }));

const A = "11111111-1111-4111-8111-111111111111";
const B = "55555555-5555-4555-8555-555555555555";
const USER = "33333333-3333-4333-8333-333333333333";
type Line = AuditRow & { object: "audit_log"; hash: string };

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash("sha256").update(bytes).digest());
const hashOf = (row: AuditRow) => createHash("sha256").update(auditPreimage(row)).digest("hex");

/** Rows that verifiers in other languages often get wrong: unusual keys, unusual numbers, text beyond ASCII. */
function chainOf(workspace_id: string, length: number, note = "acme"): Line[] {
  const lines: Line[] = [];
  for (let seq = 1; seq <= length; seq++) {
    const row: AuditRow = {
      workspace_id,
      id: `22222222-2222-4222-8222-${String(seq).padStart(12, "0")}`,
      seq,
      occurred_at: `2026-11-14T00:00:00.${String(seq).padStart(3, "0")}Z`,
      actor_type: seq % 2 ? "user" : "system",
      actor_id: seq % 2 ? USER : null,
      action: "workspace.updated",
      target_type: "workspace",
      target_id: workspace_id,
      payload: { note, n: seq / 3, "é€😀\u007f": [1e21, -0.000001, null], "\ufb33": "\u000f\n", "10": 1, "9": {} },
      prev_hash: lines.at(-1)?.hash ?? GENESIS_HASH,
    };
    lines.push({ object: "audit_log", ...row, hash: hashOf(row) });
  }
  return lines;
}

/** The lines with later hashes recomputed, as an attacker with database access can. */
function rechained(lines: Line[]): Line[] {
  let prev_hash = GENESIS_HASH;
  return lines.map((line, i) => {
    const { object, hash: _, ...row } = { ...line, seq: i + 1, prev_hash };
    prev_hash = hashOf(row);
    return { object, ...row, hash: prev_hash };
  });
}

function signed(workspace: string, lines: Line[], seed = 7): { note: string; vkey: string } {
  const der = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, seed)]);
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  const publicKey = new Uint8Array(createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32));
  const origin = `keyrack.example.com/audit/${workspace}`;
  const tree = new MerkleTree(sha256);
  for (const line of lines) tree.append(fromHex(line.hash));
  const text = formatCheckpoint(origin, tree.size, tree.root());
  const note = formatNote(text, origin, computeKeyId(origin, publicKey, sha256), sign(null, utf8(text), key));
  return { note, vkey: formatVkey(origin, publicKey, sha256) };
}

const run = (...args: string[]): RanScript => runScriptHere(SCRIPT, args, folder);

function saved(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const jsonl = (lines: Line[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");
const check = (lines: Line[] | string) => run(saved("e.jsonl", typeof lines === "string" ? lines : jsonl(lines)));
const checkSigned = (lines: Line[], checkpoint: { note: string; vkey: string }) =>
  run(saved("e.jsonl", jsonl(lines)), "--checkpoint", saved("note", checkpoint.note), "--vkey", checkpoint.vkey);

const five = chainOf(A, 5);
const changed = (change: Partial<Line>) => five.with(2, { ...(five[2] as Line), ...change });

describe("the stand-alone verifier on a good file", () => {
  it("reports what it checked and exits 0", () => {
    const { code, out } = check(five);
    expect(code).toBe(0);
    expect(out).toContain(`workspace ${A}: 5 rows good, up to hash ${five[4]?.hash}`);
  });

  it("does the same as a program, whose output and status are those of each verdict", () => {
    const good = saved("good.jsonl", jsonl(five));
    const broken = saved("broken.jsonl", jsonl(five.slice(1)));
    for (const args of [[good], [broken], []]) expect(runScript(SCRIPT, args)).toEqual(run(...args));
  });

  it("checks every workspace of a file, interleaved or not, and the deployment chain", () => {
    const [b, deployment] = [chainOf(B, 2), chainOf(NIL_WORKSPACE, 3)];
    const { code, out } = check([...b.slice(0, 1), ...five, ...b.slice(1), ...deployment]);
    expect(code).toBe(0);
    for (const [id, rows] of [
      [A, 5],
      [B, 2],
      [NIL_WORKSPACE, 3],
    ])
      expect(out).toContain(`${id}: ${rows} rows good`);
  });

  it("accepts an empty file and a file without a last newline", () => {
    expect(check("")).toMatchObject({ code: 0, out: expect.stringContaining("no rows") });
    expect(check(jsonl(five).trimEnd()).code).toBe(0);
  });

  it("reads a file larger than its buffer", () => {
    const { code, out } = check(chainOf(A, 3, "x".repeat(700_000)));
    expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining("3 rows good") });
  });

  it("accepts a checkpoint of the whole log, of an earlier size, and of size 0", () => {
    for (const size of [0, 1, 3, 4, 5]) {
      const { code, out } = checkSigned(five, signed(A, five.slice(0, size)));
      expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining(`the checkpoint of ${size}`) });
    }
  });

  it("ignores further signature lines", () => {
    const checkpoint = signed(A, five);
    const witness = `— witness.example/w1 ${Buffer.alloc(76).toString("base64")}\n`;
    expect(checkSigned(five, { ...checkpoint, note: checkpoint.note + witness }).code).toBe(0);
  });
});

describe("the stand-alone verifier names the first broken position", () => {
  const other = {
    id: USER,
    seq: 4,
    occurred_at: "2026-11-14T00:00:00.004Z",
    actor_type: "system",
    actor_id: null,
    action: "workspace.created",
    target_type: "project",
    target_id: null,
    payload: {},
    prev_hash: GENESIS_HASH,
  };
  const reasons: Record<string, string> = { seq: "seq_gap", prev_hash: "prev_hash_mismatch" };
  for (const [field, value] of Object.entries(other)) {
    it(`when ${field} is changed`, () => {
      const { code, out } = check(changed({ [field]: value }));
      expect(code).toBe(4);
      expect(out).toContain(`BROKEN at seq 3 (line 3): ${reasons[field] ?? "hash_mismatch"}; 2 rows good`);
    });

    it(`when ${field} is missing`, () => {
      expect(check(changed({ [field]: undefined }))).toMatchObject({
        code: 4,
        out: expect.stringContaining("BROKEN at seq 3 (line 3)"),
      });
    });
  }

  for (const [why, lines, said] of [
    ["hash is changed", changed({ hash: GENESIS_HASH }), "BROKEN at seq 3 (line 3): hash_mismatch"],
    ["a row is moved to another workspace", changed({ workspace_id: B }), "BROKEN at seq 3 (line 4): seq_gap"],
    ["a row is deleted", five.toSpliced(2, 1), "BROKEN at seq 3 (line 3): seq_gap"],
    ["the first row is deleted", five.slice(1), "BROKEN at seq 1 (line 1): seq_gap"],
    ["two rows are swapped", [1, 2, 4, 3, 5].map((n) => five[n - 1] as Line), "BROKEN at seq 3 (line 3): seq_gap"],
    ["a row is repeated", five.toSpliced(3, 0, five[2] as Line), "BROKEN at seq 4 (line 4): seq_gap"],
    [
      "a row is changed and hashed again",
      rechained(changed({ action: "x" })).with(3, five[3] as Line),
      "BROKEN at seq 4 (line 4): prev_hash_mismatch",
    ],
    ["one of two workspaces is broken", [...chainOf(B, 2), ...five.slice(1)], "BROKEN at seq 1 (line 3): seq_gap"],
  ] as const) {
    it(`when ${why}`, () => {
      expect(check([...lines])).toMatchObject({ code: 4, out: expect.stringContaining(said) });
    });
  }

  const text = jsonl(five);
  for (const [why, broken] of [
    ["not JSON", text.replace('{"object"', '{object"')],
    ["not an object", `null\n${text}`],
    ["hiding a key behind a second one", text.replace('"action":', '"action":"x","action":')],
    ["hiding digits that parsing drops", text.replace('"seq":1,', '"seq":1.00000000000000000001,')],
    ["half a surrogate pair", text.replace("acme", "acme\\ud800")],
    ["empty", `\n${text}`],
  ] as const) {
    it(`when a line is ${why}`, () => {
      expect(check(broken)).toMatchObject({ code: 4, out: expect.stringContaining("file: BROKEN at line 1") });
    });
  }

  it("when a line is not UTF-8", () => {
    const path = saved("latin1.jsonl", "");
    writeFileSync(path, Buffer.from(text.replace("acme", "\u00e9"), "latin1"));
    expect(run(path)).toMatchObject({ code: 4, out: expect.stringContaining("file: BROKEN at line 1") });
  });
});

describe("the stand-alone verifier with a checkpoint", () => {
  const checkpoint = signed(A, five);

  it("detects truncation, which it cannot without one", () => {
    const short = five.slice(0, 3);
    expect(check(short).code).toBe(0);
    const { code, out } = checkSigned(short, checkpoint);
    expect(code).toBe(4);
    expect(out).toContain(`workspace ${A}: BROKEN at seq 4: checkpoint_mismatch, 5 rows were signed and 3 are good`);
  });

  it("detects a history rewritten with valid hashes, which it cannot without one", () => {
    const rewritten = rechained(changed({ action: "workspace.created" }));
    expect(check(rewritten).code).toBe(0);
    expect(checkSigned(rewritten, checkpoint)).toMatchObject({
      code: 4,
      out: expect.stringContaining("BROKEN in seq 1 to 5: checkpoint_mismatch"),
    });
  });

  it("detects that the whole workspace is missing", () => {
    expect(checkSigned(chainOf(B, 2), checkpoint)).toMatchObject({
      code: 4,
      out: expect.stringContaining(`workspace ${A}: BROKEN at seq 1: checkpoint_mismatch`),
    });
  });

  for (const [why, forged] of [
    ["a changed size", { ...checkpoint, note: checkpoint.note.replace("\n5\n", "\n4\n") }],
    ["another key's signature", { ...checkpoint, note: signed(A, five, 8).note }],
    ["another key's signature under our key id", { ...checkpoint, note: underOurId() }],
    ["a checkpoint of another workspace", { ...checkpoint, note: signed(B, five).note }],
    ["no signature", { ...checkpoint, note: checkpoint.note.replace(/—.*\n/, "") }],
    ["an empty file", { ...checkpoint, note: "" }],
  ] as const) {
    it(`refuses ${why}`, () => {
      expect(checkSigned(five, forged)).toMatchObject({ code: 4, out: expect.stringContaining("checkpoint_mismatch") });
    });
  }

  function underOurId(): string {
    const last = (note: string) => Buffer.from(note.trimEnd().split(" ").at(-1) ?? "", "base64");
    const bytes = Buffer.concat([last(checkpoint.note).subarray(0, 4), last(signed(A, five, 8).note).subarray(4)]);
    return checkpoint.note.replace(/[^ ]+\n$/, `${bytes.toString("base64")}\n`);
  }
});

describe("the stand-alone verifier with wrong arguments", () => {
  const file = saved("good.jsonl", jsonl(five));
  const { note, vkey } = signed(A, five);
  const notePath = saved("good.note", note);
  for (const [why, args] of [
    ["nothing", []],
    ["a missing file", [join(folder, "none.jsonl")]],
    ["a checkpoint without a key", [file, "--checkpoint", notePath]],
    ["a key without a checkpoint", [file, "--vkey", vkey]],
    ["an unknown option", [file, "--fast", "1"]],
    ["an option without a value", [file, "--vkey", vkey, "--checkpoint"]],
    ["a missing checkpoint file", [file, "--checkpoint", join(folder, "none"), "--vkey", vkey]],
    ["a key whose id is wrong", [file, "--checkpoint", notePath, "--vkey", vkey.replace(/\+.{8}\+/, "+00000000+")]],
    ["a key that is none", [file, "--checkpoint", notePath, "--vkey", "x"]],
  ] as const) {
    it(`exits 2 on ${why}, with one line of reason`, () => {
      const { code, out, err } = run(...args);
      expect({ code, out }).toEqual({ code: 2, out: "" });
      expect(err.trimEnd().split("\n")).toHaveLength(1);
    });
  }
});

describe("docs/audit-format.md", () => {
  const doc = readFileSync(join(import.meta.dirname, "../../docs/audit-format.md"), "utf8");
  const block = (tag: string) => doc.match(new RegExp(`\`\`\`${tag}\n([^\`]+)\`\`\``))?.[1] ?? "";

  it("shows rows, a checkpoint and a key that verify together", () => {
    const args = ["--checkpoint", saved("doc.note", block("note")), "--vkey", block("vkey").trimEnd()];
    const { code, out } = run(saved("doc.jsonl", block("jsonl")), ...args);
    expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining("2 rows good") });
  });

  it("shows the canonical text that its first row hashes to", () => {
    const hash = createHash("sha256")
      .update(`keyrack-audit-v1\n${block("json").trimEnd()}`)
      .digest("hex");
    expect(JSON.parse(block("jsonl").split("\n")[0] ?? "").hash).toBe(hash);
  });
});

describe("the file itself", () => {
  const source = readFileSync(SCRIPT, "utf8");

  it("has under 200 lines and imports node:crypto and node:fs only", () => {
    expect(source.split("\n").length).toBeLessThan(200);
    const imports = [...source.matchAll(/\bfrom "([^"]+)"|\bimport\(|\brequire\(/g)].map((match) => match[1]);
    expect(imports).toEqual(["node:crypto", "node:fs"]);
  });
});
