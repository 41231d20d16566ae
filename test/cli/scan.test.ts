// `keyrack scan`: finds every key in a tree, ignores look-alikes, and never prints a whole key.
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "smol-toml";
import { describe, expect, it } from "vitest";
import { formatApiKey, formatCredential, parseCredential } from "../../src/kernel/credentials.ts";
import { keyrack, tempDir } from "../../harness/processes/cli.ts";
import { scriptedServer } from "./scripted-server.ts";

const KEY = "kr_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904bfc";
const LOOKALIKE = "kr_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904bfd";

describe("keyrack scan", () => {
  it("finds keys in text, binary files and nested folders, with their positions", async () => {
    using at = tempDir();
    const session = formatCredential("session", null, new Uint8Array(24).fill(3));
    mkdirSync(join(at.dir, "a/b/.hidden"), { recursive: true });
    writeFileSync(join(at.dir, "a/b/.hidden/.env"), `# keys\nX=1\nKEY="${KEY}"\n`);
    writeFileSync(join(at.dir, "core.bin"), Buffer.concat([Buffer.alloc(70_000, 0xff), Buffer.from(session)]));
    writeFileSync(join(at.dir, "clean.txt"), LOOKALIKE);
    const { code, stdout, stderr } = await keyrack(["scan", at.dir, "--json"]);
    expect([code, stderr.includes("2 keys found")]).toEqual([4, true]);
    expect(JSON.parse(stdout)).toEqual({
      object: "scan",
      files: 3,
      found: [
        {
          path: join(at.dir, "a/b/.hidden/.env"),
          line: 3,
          column: 6,
          kind: "api_key",
          env: "live",
          display_prefix: "kr_live_AAECAw",
        },
        {
          path: join(at.dir, "core.bin"),
          line: 1,
          column: 70_001,
          kind: "session",
          env: null,
          display_prefix: session.slice(0, 12),
        },
      ],
      skipped: [],
    });
    expect(stdout + stderr).not.toContain(KEY);
  });

  it("finds keys with any prefix, once and with the whole prefix", async () => {
    using at = tempDir();
    const bytes = Uint8Array.from({ length: 24 }, (_, i) => i);
    const keys = ["acme", "northwind", "ab"].map((prefix) => formatApiKey(prefix, "live", bytes));
    const stripe = `sk_live_${"a".repeat(40)}`;
    writeFileSync(join(at.dir, "keys"), `${keys.join("\n")}\nx${keys[0]}\n${stripe}\n`);
    const edges = [1, 4, 5, 9, 10, 50, 128, 129, 132].map((backend) => (1 << 20) - backend);
    for (const [i, edge] of edges.entries())
      writeFileSync(join(at.dir, `z-${i}`), `${" ".repeat(edge)}${keys[1]} tail`);
    const { stdout } = await keyrack(["scan", at.dir, "--json"]);
    const { found } = JSON.parse(stdout) as { found: { line: number; column: number; display_prefix: string }[] };
    expect(found.slice(0, 4).map(({ line, column, display_prefix }) => [line, column, display_prefix])).toEqual([
      [1, 1, "acme_live_AAECAw"],
      [2, 1, "northwind_live_AAECAw"],
      [3, 1, "ab_live_AAECAw"],
      [4, 2, "acme_live_AAECAw"],
    ]);
    expect(found.slice(4).map(({ column }) => column)).toEqual(edges.map((edge) => edge + 1));
    const checked = await keyrack(["check-key", "-", "--json"], { input: keys[0] ?? "" });
    expect(JSON.parse(checked.stdout)).toMatchObject({
      valid: true,
      kind: "api_key",
      display_prefix: "acme_live_AAECAw",
    });
  });

  it("finds a key with its own prefix after any text", async () => {
    using at = tempDir();
    const key = formatApiKey("acme", "live", new Uint8Array(24).fill(7));
    const before = ["my_", "1", "KEY", "thisisaverylongword", "krsk_", "acme_live_", "test_live_", "kr_live_kr_live_"];
    writeFileSync(join(at.dir, "keys"), before.map((text) => `${text}${key}0z\n`).join(""));
    const { stdout } = await keyrack(["scan", at.dir, "--json"]);
    const { found } = JSON.parse(stdout) as { found: { line: number; column: number; display_prefix: string }[] };
    expect(found.map(({ line, column, display_prefix }) => [line, column, display_prefix])).toEqual(
      before.map((text, i) => [i + 1, text.length + 1, key.slice(0, 16)]),
    );
  });

  it("reports the position of each key, also of several on one line", async () => {
    using at = tempDir();
    writeFileSync(join(at.dir, "many"), `${KEY} ${KEY}\n\n ${KEY}\n${" ".repeat(1 << 20)}\n${KEY},${KEY}`);
    const { stdout } = await keyrack(["scan", at.dir, "--json"]);
    const { found } = JSON.parse(stdout) as { found: { line: number; column: number }[] };
    expect(found.map(({ line, column }) => [line, column])).toEqual([
      [1, 1],
      [1, KEY.length + 2],
      [3, 2],
      [5, 1],
      [5, KEY.length + 2],
    ]);
  });

  it("finds a key across a chunk boundary, and one that begins inside a look-alike", async () => {
    using at = tempDir();
    const edges = [1, 20, 48, 127, 128, 129].map((backend) => (1 << 20) - backend);
    for (const [i, edge] of edges.entries()) writeFileSync(join(at.dir, `edge-${i}`), `${" ".repeat(edge)}${KEY} tail`);
    // The first 48 characters match the pattern and fail the CRC; eight of them belong to the key.
    const inner = formatCredential("api_key", "live", Buffer.from(`abcdef01${"A".repeat(24)}`, "base64url"));
    writeFileSync(join(at.dir, "inside"), `kr_live_${"a".repeat(24)}${inner}`);
    const { code, stdout } = await keyrack(["scan", at.dir, "--json"]);
    expect(code).toBe(4);
    const found = (JSON.parse(stdout) as { found: { path: string; column: number }[] }).found;
    for (const [i, edge] of edges.entries())
      expect(found.filter(({ path }) => path.endsWith(`edge-${i}`))).toMatchObject([{ column: edge + 1 }]);
    expect(found.filter(({ path }) => path.endsWith("inside"))).toMatchObject([{ column: 33 }]);
  });

  it("follows a link given as an argument, but none inside the tree", async () => {
    using at = tempDir();
    mkdirSync(join(at.dir, "tree"));
    mkdirSync(join(at.dir, "elsewhere"));
    writeFileSync(join(at.dir, "elsewhere/key"), KEY);
    symlinkSync(join(at.dir, "elsewhere"), join(at.dir, "tree/link"));
    symlinkSync(join(at.dir, "elsewhere"), join(at.dir, "named"));
    expect((await keyrack(["scan", join(at.dir, "tree")])).code).toBe(0);
    expect((await keyrack(["scan", join(at.dir, "named")])).code).toBe(4);
  });

  it("exits 1 if a path cannot be read", async () => {
    using at = tempDir();
    writeFileSync(join(at.dir, "clean"), LOOKALIKE);
    chmodSync(join(at.dir, "clean"), 0o600);
    expect(await keyrack(["scan", at.dir])).toMatchObject({ code: 0, stdout: "No keys found in 1 file.\n" });
    const unreadable = await keyrack(["scan", at.dir, "/proc/self/mem"]);
    expect([unreadable.code, unreadable.stderr]).toEqual([1, "keyrack: Cannot read 1 path, first: /proc/self/mem.\n"]);
    expect((await keyrack(["scan", join(at.dir, "nowhere")])).code).toBe(2);
    expect(await keyrack(["scan", "/dev/null"])).toMatchObject({
      code: 2,
      stdout: "",
      stderr: "keyrack: /dev/null is neither a file nor a folder.\n",
    });
  });
});

describe("keyrack scan patterns", () => {
  const patterns = async (...args: string[]) => {
    const { code, stdout, stderr } = await keyrack(["scan", "patterns", "--prefix", "acme", ...args]);
    expect([code, stderr]).toEqual([0, ""]);
    return stdout;
  };

  it("match keys with the given prefixes and our own credentials", async () => {
    const { object, prefixes, patterns: list } = JSON.parse(await patterns("--json"));
    expect([object, prefixes]).toEqual(["scan_patterns", ["acme", "kr"]]);
    const matches = (text: string): string[] =>
      list
        .filter(({ regex }: { regex: string }) => new RegExp(`^${regex}$`).test(text))
        .map((one: { name: string }) => one.name);
    expect(matches(formatApiKey("acme", "test", new Uint8Array(24)))).toEqual(["acme-key"]);
    expect([matches(KEY), matches(formatCredential("session", null, new Uint8Array(24)))]).toEqual([
      ["keyrack-key"],
      ["keyrack-token"],
    ]);
    expect(matches(formatApiKey("other", "live", new Uint8Array(24)))).toEqual([]);
  });

  it("are printed as files for gitleaks and trufflehog, and as the form of GitHub's programme", async () => {
    const { rules } = parse(await patterns("--format", "gitleaks")) as unknown as {
      rules: { id: string; regex: string; keywords: string[] }[];
    };
    expect(rules.map(({ id, keywords }) => [id, keywords[0]])).toEqual([
      ["acme-key", "acme_live_"],
      ["keyrack-key", "kr_live_"],
      ["keyrack-token", "krses_"],
    ]);
    const yaml = await patterns("--format", "trufflehog");
    expect(yaml).toContain("  - name: AcmeKey\n    keywords: [acme_live_, acme_test_]");
    const github = await patterns("--format", "github", "--url", "https://keys.example.com/");
    expect(github).toContain("POST https://keys.example.com/v1/webhooks/scanner/secret_scanning");
    expect(github).toContain("GET https://keys.example.com/v1/self");
    const samples = github.split("\n").filter((line) => line.startsWith("acme_live_"));
    expect([samples.length, samples.every((sample) => parseCredential(sample) !== null)]).toEqual([2, true]);
  });

  it("name the server's public URL to GitHub, or the command's where the server keeps it to sessions", async () => {
    const public_url = "https://keys.example.com";
    for (const [status, shown] of [
      [200, () => public_url],
      [403, (url: string) => url],
    ] as const) {
      await using server = await scriptedServer(({ route }) =>
        route === "GET /v1/instance" ? { status, json: { public_url } } : { json: { data: [] } },
      );
      const env = { KEYRACK_URL: server.url, KEYRACK_SECRET_KEY: "krsk_live_x" };
      const { stdout } = await keyrack(["scan", "patterns", "--format", "github"], { env });
      const url = shown(server.url);
      expect(stdout).toContain(`POST ${url}/v1/webhooks/scanner/secret_scanning\n`);
      expect(stdout).toContain(`GET ${url}/v1/self with`);
    }
  });

  it("are refused for a prefix that no project may have, and of an unknown format", async () => {
    for (const args of [
      ["--prefix", "sk"],
      ["--format", "xml"],
    ]) {
      const { code } = await keyrack(["scan", "patterns", ...args]);
      expect(code).toBe(2);
    }
  });
});
