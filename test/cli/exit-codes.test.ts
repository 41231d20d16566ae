// Exit codes and error messages: refused (1), wrong usage (2), unreachable (3), failed verification (4). One line on
// stderr, no stack trace, no secret.
import { generateKeyPairSync, sign } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fromHex, utf8 } from "../../src/kernel/crypto/bytes.ts";
import { MerkleTree } from "../../src/kernel/crypto/merkle.ts";
import { computeKeyId, formatCheckpoint, formatNote, formatVkey } from "../../src/kernel/crypto/signed-note.ts";
import { sha256Bytes } from "../../src/platform/crypto.ts";
import {
  startSeededServer,
  UNKNOWN_ID,
  UNREACHABLE,
  type SeededServer,
} from "../../harness/processes/seeded-server.ts";

let cli: SeededServer;

beforeAll(async () => {
  cli = await startSeededServer();
  writeFileSync(join(cli.dir, "key.txt"), `${cli.seed.secret_key}\n`);
  await cli.run(["audit", "export", "--out", "export.jsonl"]);
  const text = readFileSync(join(cli.dir, "export.jsonl"), "utf8");
  writeFileSync(join(cli.dir, "forged.jsonl"), text.replace("workspace.created", "workspace.updated"));
});

afterAll(() => cli?.[Symbol.asyncDispose]());

/** The database of the running server, named with another data dir. */
const otherDir = (): string[] => ["--data-dir", "other", "--database-url", `sqlite:${cli.seed.data_dir}/keyrack.db`];

describe("a command", () => {
  for (const [why, args, code, message] of [
    ["an unknown id", () => ["key", "show", UNKNOWN_ID], 1, "No such key."],
    ["a rejected field", () => ["project", "create", "--name", "P", "--slug", "X"], 1, "keyrack: --slug must"],
    [
      "a bad credential",
      () => ["project", "list", "--secret-key", "krsk_live_x"],
      1,
      "Check --secret-key, or run: keyrack login",
    ],
    [
      "an API key as a secret key",
      () => ["project", "list", "--secret-key", "kr_live_x"],
      1,
      "--secret-key is an API key, which customers use; a secret key begins with krsk_.",
    ],
    [
      "a credential as an argument",
      () => ["self", "revoke", cli.seed.secret_key],
      2,
      "keyrack: A credential must not be an argument: process lists show those. Pass it on standard input.",
    ],
    ["a credential as a command", () => [cli.seed.secret_key], 2, "keyrack: unknown command 'krsk_live_"],
    ["a credential as a flag", () => ["login", `--${cli.seed.secret_key}`], 2, "unknown option '--krsk_live_"],
    ["a field that a flag sets", () => ["key", "list", "--limit", "5000"], 1, "keyrack: --limit must be"],
    ["an unknown account", () => ["user", "unlock", "no@example.com", ...cli.dataDir], 1, "No such"],
    ["a missing flag", () => ["key", "create"], 2, "--project-id, --tenant-id, --env"],
    ["invalid JSON", () => ["tenant", "create", "--external-id", "a", "--meta", "{"], 2, "--meta is not valid JSON"],
    ["an invalid choice", () => ["secret-key", "create", "--env", "prod"], 2, "live, test"],
    ["an unknown noun", () => ["keys"], 2, "keyrack: unknown command 'keys' (Did you mean key?)"],
    ["help on an unknown noun", () => ["help", "nope"], 2, "keyrack: unknown command 'nope'"],
    ["--help of an unknown noun", () => ["nope", "--help"], 2, "keyrack: unknown command 'nope'"],
    ["--help of an unknown verb", () => ["key", "lst", "--help"], 2, "unknown command 'lst' (Did you mean list?)"],
    ["help on an unknown verb", () => ["help", "key", "bogus"], 2, "keyrack: unknown command 'bogus'"],
    ["--help before an unknown verb", () => ["key", "-h", "bogus"], 2, "keyrack: unknown command 'bogus'"],
    ["an unknown flag", () => ["key", "list", "--limt", "2"], 2, "'--limt' (Did you mean --limit?) (add --help"],
    [
      "a flag that is also unset",
      () => ["tenant", "update", UNKNOWN_ID, "--name", "n", "--unset", "name"],
      2,
      "--name and --unset name cannot be used together.",
    ],
    ["an unknown profile", () => ["project", "list", "--profile", "nope"], 2, "profile list"],
    [
      "a limit with a fraction",
      () => ["audit", "list", "--offline", "--limit", "1.5", ...cli.dataDir],
      2,
      "--limit must be a whole number",
    ],
    ["a file for keys without --from-csv", () => ["key", "create", "--out", "new.csv"], 2, "--out needs --from-csv."],
    ["a restart without --from-csv", () => ["key", "create", "--restart"], 2, "--restart needs --from-csv."],
    [
      "a profile for no workspace",
      () => ["init", "--yes", "--save", "--out", "n.toml"],
      2,
      "--save needs --workspace-name",
    ],
    ["a tail of nothing", () => ["audit", "list", "--tail", "0"], 2, "--tail must be a whole number from 1 to 200."],
    ["a tail of too many rows", () => ["audit", "list", "--tail", "201"], 2, "--tail must be"],
    ["a needed flag that is missing", () => ["node", "list"], 1, "keyrack: --project-id is required"],
    [
      "a grant of nothing",
      () => ["quota", "grant", "--tenant-id", UNKNOWN_ID, "--quota-id", "q"],
      2,
      "Missing: --units.",
    ],
    ["an empty secret key", () => ["login", "--secret-key", "-"], 2, "No secret key. Pass it on standard input."],
    ["an invalid member of a list", () => ["key", "bulk", "enable", "--ids", "x", "--dry-run"], 1, "--ids[0] must be"],
    [
      "a flag of another action",
      () => ["key", "bulk", "disable", "--all", "--overlap-hours", "1", "--dry-run"],
      1,
      "--overlap-hours is not a field of disable",
    ],
    [
      "a bulk run without keys in a transaction",
      () => ["key", "bulk", "enable", "--limit", "0", "--dry-run"],
      2,
      "--limit must be a whole number from 1 to 500.",
    ],
    ["a missing data dir", () => ["user", "list", "--data-dir", "nowhere"], 2, "There is no database"],
    ["a migration while a server is running", () => ["db", "migrate", ...cli.dataDir], 1, "is using the data dir"],
    ["a restore while a server is running", () => ["restore", ...cli.dataDir], 1, "Stop it first"],
    ["a restore from another data dir", () => ["restore", "--force", ...otherDir()], 1, "is using the data dir"],
    ["a rotation from another data dir", () => ["master-key", "rotate", ...otherDir()], 1, "is using the data dir"],
    [
      "a copy from another data dir",
      () => ["db", "copy", "--to", "postgres://x@127.0.0.1:1/x", ...otherDir()],
      1,
      "is using the data dir",
    ],
    ["an unknown backup", () => ["backup", "verify", "20200101T000000Z-000000", ...cli.dataDir], 1, "no backup"],
    [
      "an unreachable database",
      () => ["init", "--yes", "--database-url", "postgres://x@127.0.0.1:1/x", "--out", "n.toml"],
      3,
      "Nothing was written",
    ],
    ["a forged log", () => ["audit", "verify", "--file", "forged.jsonl"], 4, "broken at seq 1: hash_mismatch"],
    ["a mistyped key", () => ["check-key", "kr_live_abc"], 4, "mistyped"],
    ["a key in a file", () => ["scan", "key.txt"], 4, "1 key found"],
  ] as const) {
    it(`exits ${code} for ${why}`, async () => {
      const ran = await cli.run([...args()]);
      expect(ran.code, ran.stderr).toBe(code);
      expect(ran.stderr).toContain(message);
      expect(ran.stderr).toMatch(/^keyrack: .*\n$/);
      expect(ran.stdout + ran.stderr).not.toContain(cli.seed.secret_key);
    });
  }
});

describe("help", () => {
  it.each([
    [["--help"], "keyrack"],
    [["help", "key"], "keyrack key"],
    [["key", "list", "--help"], "keyrack key list"],
    [["help", "key", "list"], "keyrack key list"],
    [["key", "help", "list"], "keyrack key list"],
    [["scan", "src", "--help"], "keyrack scan"],
    [["scan", "patterns", "--help"], "keyrack scan patterns"],
    [["key", "show", "an-id", "--help"], "keyrack key show"],
  ])("is that of the command: %j", async (words, command) => {
    const { code, stdout } = await cli.run(words);
    expect([code, stdout.split("\n")[0]]).toEqual([0, expect.stringMatching(`^Usage: ${command} [[<]`)]);
  });
});

describe("a whole credential", () => {
  it.each([
    "key find acme",
    "key list --ids",
    "key show",
    "key revoke",
    "audit list --target-id",
    "audit export --target-id",
    "secret-key revoke",
    "quota show --key-id",
  ])("is never part of a URL, which proxies log: keyrack %s", async (words) => {
    const { key } = await cli.api("POST", "/v1/keys", {
      project_id: cli.seed.project_id,
      tenant_id: cli.seed.tenant_id,
      env: "live",
    });
    for (const credential of [key, cli.seed.secret_key]) {
      const ran = await cli.run([...words.split(" "), credential], { KEYRACK_URL: UNREACHABLE });
      expect(ran).toEqual({ code: 2, stdout: "", stderr: expect.stringContaining("keyrack key lookup") });
      expect(ran.stderr).not.toContain(credential);
    }
  });

  it("is not what a display prefix or a similar name is taken for", async () => {
    for (const word of ["kr_live_abcdef", `acme_test_${"customer".repeat(5)}`])
      expect((await cli.run(["key", "find", word], { KEYRACK_URL: UNREACHABLE })).code).toBe(3);
  });
});

describe("check-key", () => {
  it("ignores white space around the key on standard input", async () => {
    const checked = await cli.run(["check-key", "-", "--quiet"], {}, `\n ${cli.seed.secret_key} \n\n`);
    expect([checked.code, checked.stdout]).toEqual([0, expect.stringMatching(/^krsk_live_/)]);
  });
});

describe("audit verify --json", () => {
  it.each([
    ["a checkpoint that is not signed by the key", ["--checkpoint", "forged.txt"], "checkpoint_mismatch"],
    ["a line that is no row", ["--file", "torn.jsonl"], "malformed_row"],
  ])("prints its document for %s", async (_why, args, reason) => {
    const { note } = JSON.parse((await cli.run(["audit", "checkpoint", "--json"])).stdout) as { note: string };
    writeFileSync(
      join(cli.dir, "forged.txt"),
      note.replace(/^\d+$/m, (size) => `${Number(size) + 1}`),
    );
    writeFileSync(join(cli.dir, "torn.jsonl"), '{"id":');
    const ran = await cli.run(["audit", "verify", "--json", ...args]);
    expect(ran.code).toBe(4);
    expect(JSON.parse(ran.stdout)).toEqual({ object: "audit_verification", verified: false, chains: [], reason });
  });
});

describe("audit verify --checkpoint", () => {
  const exportRows = async (): Promise<string[]> =>
    (await cli.run(["audit", "export"])).stdout.split("\n").filter((line) => line !== "");

  it("accepts the files of checkpoints/, whatever number of notes they have, and detects truncation", async () => {
    const { workspace_id, data_dir } = cli.seed;
    const file = join(data_dir, "checkpoints", `${workspace_id}.txt`);
    const vkey = (await cli.run(["audit", "checkpoint", "--vkey"])).stdout.trimEnd();
    const countNotes = () => readFileSync(file, "utf8").match(/^— /gm)?.length ?? 0;
    const notes = countNotes();
    for (const external_id of ["first note", "second note"]) {
      await cli.api("POST", "/v1/tenants", { external_id });
      await cli.run(["audit", "checkpoint"]);
      const offline = ["--offline", ...cli.dataDir, "--workspace-id", workspace_id];
      for (const form of [[], offline]) {
        const ran = await cli.run(["audit", "verify", ...form, "--checkpoint", file]);
        expect([ran.code, ran.stderr]).toEqual([0, ""]);
        expect(ran.stdout).toContain("extends the checkpoint at");
      }
    }
    expect(countNotes()).toBe(notes + 2);

    const rows = await exportRows();
    writeFileSync(join(cli.dir, "short.jsonl"), `${rows.slice(0, -1).join("\n")}\n`);
    const short = await cli.run(["audit", "verify", "--file", "short.jsonl", "--checkpoint", file, "--vkey", vkey]);
    expect([short.code, short.stderr]).toEqual([
      4,
      expect.stringContaining(`broken at seq ${rows.length}: checkpoint_mismatch`),
    ]);

    writeFileSync(join(cli.dir, "torn.txt"), readFileSync(file, "utf8").slice(0, -40));
    const torn = await cli.run(["audit", "verify", "--checkpoint", "torn.txt"]);
    expect([torn.code, torn.stderr]).toEqual([2, expect.stringContaining("malformed: note")]);
    writeFileSync(join(cli.dir, "empty.txt"), "");
    expect((await cli.run(["audit", "verify", "--checkpoint", "empty.txt"])).code).toBe(2);
  });

  it("fails for an older note that a newer one contradicts", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const bytes = new Uint8Array(publicKey.export({ format: "der", type: "spki" }).subarray(-32));
    const name = `example.com/audit/${cli.seed.workspace_id}`;
    const rows = (await exportRows()).map((line) => JSON.parse(line) as { hash: string });
    const signed = (size: number, leaves = rows.slice(0, size)): string => {
      const tree = new MerkleTree(sha256Bytes);
      for (const { hash } of leaves) tree.append(fromHex(hash));
      const text = formatCheckpoint(name, size, tree.root());
      return formatNote(text, name, computeKeyId(name, bytes, sha256Bytes), sign(null, utf8(text), privateKey));
    };
    writeFileSync(join(cli.dir, "rows.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    const verified = async (...notes: string[]) => {
      writeFileSync(join(cli.dir, "notes.txt"), notes.join(""));
      const vkey = formatVkey(name, bytes, sha256Bytes);
      const files = ["--file", "rows.jsonl", "--checkpoint", "notes.txt"];
      return (await cli.run(["audit", "verify", ...files, "--vkey", vkey])).code;
    };
    expect(await verified(signed(rows.length), signed(0), signed(2))).toBe(0);
    expect(await verified(signed(2, rows.slice(1, 3)), signed(rows.length))).toBe(4);
  });
});

describe("key lookup", () => {
  const lookup = (input: string, ...args: string[]) => cli.run(["key", "lookup", ...args], {}, input);

  it("exits 0 for a key that would be admitted, and 1 with the reason for any other", async () => {
    const { project_id, tenant_id } = cli.seed;
    const { id, key } = await cli.api("POST", "/v1/keys", { project_id, tenant_id, env: "live", name: "looked up" });
    const admitted = await lookup(`${key}\n`);
    expect([admitted.code, admitted.stdout]).toEqual([0, expect.stringMatching(/admitted +yes/)]);
    expect((await lookup(key, "--quiet")).stdout).toBe(`${id}\n`);
    const unscoped = await lookup(key, "--scopes", "orders:read", "orders:write");
    expect([unscoped.code, unscoped.stdout]).toEqual([1, expect.stringContaining("lacks a required scope")]);
    await cli.api("POST", `/v1/keys/${id}/revoke`, {});
    const revoked = await lookup(key);
    expect([revoked.code, revoked.stdout]).toEqual([1, expect.stringContaining("It was revoked. Since 2")]);
    expect(JSON.parse((await lookup(key, "--json")).stdout)).toMatchObject({ admitted: false, record: { id } });
    expect(revoked.stdout + revoked.stderr + admitted.stdout).not.toContain(key);
  });

  it("refuses a key as an argument, and an empty input", async () => {
    const refused = await lookup("", "kr_live_whatever");
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("standard input")]);
    expect(refused.stderr).not.toContain("whatever");
    expect((await lookup("\n")).code).toBe(2);
  });
});
