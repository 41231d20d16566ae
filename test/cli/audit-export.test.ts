// `keyrack audit export`: filters, continuing a file, and a server without the endpoint.
import { once } from "node:events";
import { appendFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Writable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { download } from "../../src/cli/api/request.ts";
import { DAY_MS } from "../../src/kernel/durations.ts";
import { startSeededServer, UNREACHABLE, type SeededServer } from "../../harness/processes/seeded-server.ts";

let cli: SeededServer;
beforeAll(async () => {
  cli = await startSeededServer();
});
afterAll(() => cli?.[Symbol.asyncDispose]());

const read = (file: string): string => readFileSync(join(cli.dir, file), "utf8");
const seqs = (text: string): number[] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as { seq: number }).seq);
const exported = (...args: string[]) => cli.run(["audit", "export", ...args]);

function midnight(days: number): string {
  return `${new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10)}T00:00:00.000Z`;
}

/** What `usage export` needs. */
const DAY = ["--from", midnight(-1), "--to", midnight(0)];

describe("keyrack audit export", () => {
  it("continues a file after its last whole line, so that the whole verifies", async () => {
    await exported("--out", "log.jsonl");
    const before = read("log.jsonl");
    writeFileSync(join(cli.dir, "log.jsonl"), before.slice(0, -100)); // torn within the last row
    await cli.api("POST", "/v1/tenants", { external_id: "resumed" });

    const ran = await exported("--out", "log.jsonl", "--resume");
    expect(ran.stdout).toBe("Exported 2 rows to log.jsonl.\n");
    expect(read("log.jsonl").startsWith(before)).toBe(true);
    expect(seqs(read("log.jsonl"))).toEqual(seqs(before).concat(seqs(before).length + 1));
    expect((await cli.run(["audit", "verify", "--file", "log.jsonl"])).code).toBe(0);

    expect((await exported("--out", "log.jsonl", "--resume")).stdout).toBe("Exported 0 rows to log.jsonl.\n");
    expect(statSync(join(cli.dir, "log.jsonl")).mode & 0o777).toBe(0o600);
  });

  it("verifies whatever line separators the texts in its rows have", async () => {
    await cli.api("POST", "/v1/tenants", { external_id: "separated", name: "one\u2028two\u2029three\u0085four" });
    await exported("--out", "separators.jsonl");
    expect(read("separators.jsonl")).toContain("\u2028");
    expect((await cli.run(["audit", "verify", "--file", "separators.jsonl"])).stdout).toContain(": verified, ");
  });

  it("escapes what a file names as its workspace", async () => {
    writeFileSync(join(cli.dir, "hostile.jsonl"), '{"workspace_id":"\\u001b[2Jgone"}\n');
    const ran = await cli.run(["audit", "verify", "--file", "hostile.jsonl"]);
    expect([ran.code, ran.stdout]).toEqual([4, expect.stringContaining("\\u001b[2Jgone: broken at seq 1")]);
    expect(ran.stdout).not.toContain("\u001b");
  });

  it("begins again in a file that has only a part of its first line", async () => {
    const whole = (await exported()).stdout;
    const [first = ""] = whole.split("\n");
    const inPages = `{"object":"audit_log","id":"${"0".repeat(20)}`;
    for (const torn of [first, first.slice(0, 40), first.slice(0, 3), inPages, ""]) {
      writeFileSync(join(cli.dir, "torn.jsonl"), torn);
      expect((await exported("--out", "torn.jsonl", "--resume")).code).toBe(0);
      expect([torn, read("torn.jsonl") === whole]).toEqual([torn, true]);
    }
  });

  it("changes no file that is not an export", async () => {
    appendFileSync(join(cli.dir, "notes.txt"), '{"a":1}\ntorn');
    const ran = await exported("--out", "notes.txt", "--resume");
    expect([ran.code, read("notes.txt")]).toEqual([2, '{"a":1}\ntorn']);
    writeFileSync(join(cli.dir, "line.txt"), '{"a":1}');
    expect([(await exported("--out", "line.txt", "--resume")).code, read("line.txt")]).toEqual([2, '{"a":1}']);
    expect((await exported("--resume")).code).toBe(2);
    const refused = await cli.run(["audit", "export", "--out", "notes.txt"], { KEYRACK_SECRET_KEY: "krsk_test_x" });
    expect([refused.code, read("notes.txt")]).toEqual([2, '{"a":1}\ntorn']);
  });

  it("writes only the rows that match", async () => {
    const projects = await exported("--action", "project.*", "--after-seq", "1");
    expect(projects.stdout.trimEnd().split("\n")).toHaveLength(1);
    expect(projects.stdout).toContain('"action":"project.created"');
    const refused = await exported("--offline", ...cli.dataDir, "--action", "project.*");
    expect([refused.code, refused.stdout]).toEqual([2, ""]);
    const offline = await exported(
      "--offline",
      ...cli.dataDir,
      "--workspace-id",
      cli.seed.workspace_id,
      "--after-seq",
      "2",
    );
    expect(seqs(offline.stdout)[0]).toBe(3);
  });

  it.each([["audit"], ["usage", ...DAY]])(
    "leaves the file of an earlier %s export as it is where nothing arrives",
    async (noun, ...needed) => {
      writeFileSync(join(cli.dir, "earlier"), "earlier");
      const args = [noun, "export", ...needed, "--out", "earlier"];
      const codes = [
        (await cli.run(args, { KEYRACK_URL: UNREACHABLE })).code,
        (await cli.run(args, { KEYRACK_SECRET_KEY: `krsk_live_${"A".repeat(32)}00000000` })).code,
        (await cli.run([...args, "--from", "yesterday"])).code,
        (await cli.run([...args, "--out", "no/such/folder"])).code,
      ];
      expect([codes, read("earlier")]).toEqual([[3, 1, 1, 2], "earlier"]);
      expect((await cli.run(args)).code).toBe(0);
      expect(read("earlier")).not.toContain("earlier");
    },
  );

  it("leaves the file of an earlier export as it is where the data dir is wrong", async () => {
    writeFileSync(join(cli.dir, "earlier"), "earlier");
    const ran = await exported("--offline", "--data-dir", "nowhere", "--out", "earlier");
    expect([ran.code, read("earlier")]).toEqual([2, "earlier"]);
  });

  it("ends without an error when its reader has closed the pipe", async () => {
    const closed = new Writable({
      write: (_chunk, _encoding, done) => done(Object.assign(new Error("write EPIPE"), { code: "EPIPE" })),
    });
    const target = { url: cli.seed.url, bearer: cli.seed.secret_key };
    await download(target, { method: "GET", path: "/v1/audit_logs/export" }, closed);
    expect(closed.destroyed).toBe(true);
  });

  it("reads pages from a server that has no such endpoint", async () => {
    const earlier = createServer((incoming, outgoing) => {
      const { method, headers, url = "" } = incoming;
      if (url.startsWith("/v1/audit_logs/export"))
        outgoing.writeHead(404).end('{"error":{"code":"not_found","message":"No such route."}}');
      else
        request(cli.seed.url + url, { method, headers }, (response) => {
          response.pipe(outgoing.writeHead(response.statusCode ?? 500, response.headers));
        }).end();
    }).listen(0, "127.0.0.1");
    await once(earlier, "listening");
    await using _closed = { [Symbol.asyncDispose]: async () => void earlier.close() };
    const url = `http://127.0.0.1:${(earlier.address() as AddressInfo).port}`;
    const all = seqs((await exported()).stdout);
    expect(seqs((await exported("--url", url, "--after-seq", "2")).stdout)).toEqual(all.slice(2));
    expect((await exported("--url", url, "--action", "project.*")).code).toBe(1);
  });
});

describe("keyrack audit list --tail", () => {
  it("shows the newest rows, newest first", async () => {
    const head = seqs((await exported()).stdout).length;
    const { stdout } = await cli.run(["audit", "list", "--tail", "2", "--json"]);
    const { data } = JSON.parse(stdout) as { data: { seq: number }[] };
    expect(data.map(({ seq }) => seq)).toEqual([head, head - 1]);
    expect((await cli.run(["audit", "list", "--tail", "2", "--limit", "3"])).code).toBe(2);
  });
});
