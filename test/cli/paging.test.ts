// Lists that are paged by cursor: only a page without a cursor is the last one, however few rows it has.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keyrack } from "../../harness/processes/cli.ts";
import { nextPage, type List } from "../../src/cli/ui/format.ts";
import { startSeededServer, UNKNOWN_ID, type SeededServer } from "../../harness/processes/seeded-server.ts";

const LISTS = [
  ["key", "find", "acme"],
  ["key", "list", "--state", "active"],
  ["audit", "list", "--action", "plan.created"],
  ["audit", "list", "--tail", "5"],
  ["tenant", "list", "--q", "acme"],
  ["node", "list", "--view", "fleet"],
  ["quota", "grants", "--tenant-id", UNKNOWN_ID, "--quota-id", "calls"],
];

describe("a list of which a server examines a part for each page", () => {
  const pages: Record<string, { data: object[]; next_cursor: string | null }> = {};
  const cursors: string[] = [];
  let server: Server;
  let lastStderr = "";

  beforeAll(async () => {
    server = createServer((request, response) => {
      const cursor = new URL(request.url ?? "", "http://server").searchParams.get("cursor") ?? "first";
      cursors.push(cursor);
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ object: "list", ...pages[cursor] }));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
  });
  afterAll(() => server?.close());

  async function run(args: string[], ...more: string[]) {
    cursors.length = 0;
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { code, stdout, stderr } = await keyrack([...args, ...more], {
      env: { KEYRACK_URL: url, KEYRACK_SECRET_KEY: "krsk_live_x", NO_COLOR: "1" },
    });
    expect(code).toBe(0);
    lastStderr = stderr;
    return stdout.trimEnd().split("\n");
  }

  for (const args of LISTS) {
    it(`${args.slice(0, 3).join(" ")} follows empty pages, and names the cursor of the next one`, async () => {
      const row = { id: "id-1", node_id: "id-1", seq: 7 };
      pages.first = { data: [], next_cursor: "second" };
      pages.second = { data: [], next_cursor: "third" };
      pages.third = { data: [row], next_cursor: "fourth" };
      expect((await run(args)).slice(1)).toEqual([
        expect.stringMatching(/id-1|7/),
        "More results: add --cursor fourth",
      ]);
      expect(cursors).toEqual(["first", "second", "third"]);
      pages.fourth = { data: [{ ...row, id: "id-2", node_id: "id-2" }], next_cursor: null };
      const isLimited = args.includes("--tail");
      expect(await run(args, "--quiet")).toEqual(isLimited ? ["id-1"] : ["id-1", "id-2"]);
      expect(lastStderr).toBe(isLimited ? "More results: add --cursor fourth\n" : "");
      if (!isLimited) {
        expect(await run(args, "--quiet", "--limit", "1")).toEqual(["id-1"]);
        expect(lastStderr).toBe("More results: add --cursor fourth\n");
      }
      expect((await run(args, "--cursor", "third")).at(-1)).toBe("More results: add --cursor fourth");
      expect(JSON.parse((await run(args, "--json"))[0] ?? "")).toEqual({ object: "list", ...pages.first });

      pages.third = { data: [], next_cursor: null };
      expect(await run(args)).toEqual(["No results."]);
      expect(cursors).toEqual(["first", "second", "third"]);
    });
  }
});

describe("the CLI", () => {
  let cli: SeededServer;
  beforeAll(async () => {
    cli = await startSeededServer();
  });
  afterAll(() => cli?.[Symbol.asyncDispose]());

  it("continues a list of members behind the last one's user id", () => {
    const list: List = { object: "list", data: [{ user_id: "a" }, { user_id: "b" }] };
    expect(nextPage({ ...list, has_more: true })).toEqual({ name: "after", value: "b" });
    expect(nextPage(list)).toBe(null);
  });

  it("prints with --quiet every key of a project, more than fit on a page", async () => {
    const { id: project_id } = await cli.api("POST", "/v1/projects", { name: "Many", slug: "many" });
    const { id: tenant_id } = await cli.api("POST", "/v1/tenants", { external_id: "many" });
    const body = { project_id, tenant_id, env: "live", name: "k" };
    const made = await Promise.all(Array.from({ length: 51 }, () => cli.api("POST", "/v1/keys", body)));
    const { stdout, stderr } = await cli.run(["key", "list", "--project-id", project_id, "--quiet"]);
    expect(stdout.trimEnd().split("\n").toSorted()).toEqual(made.map(({ id }) => id).toSorted());
    expect(stderr).toBe("");
  });

  it("lists every grant of a quota, page by page", async () => {
    const quotas = [{ id: "calls", amount: 10, refill: "none" }];
    const { id } = await cli.api("POST", "/v1/tenants", { external_id: "granted", quotas });
    const granted: string[] = [];
    for (const units of [1, 2, 3])
      granted.unshift((await cli.api("POST", `/v1/tenants/${id}/quotas/calls/grants`, { units })).id);
    const list = async (...more: string[]) =>
      (await cli.run(["quota", "grants", "--tenant-id", id, "--quota-id", "calls", "--limit", "2", ...more])).stdout;
    const [, first, second, more] = (await list()).split("\n");
    expect([first, second].map((line) => line?.split(" ")[0])).toEqual(granted.slice(0, 2));
    const cursor = /^More results: add --cursor (\S+)$/.exec(more ?? "")?.[1] ?? "";
    expect(await list("--quiet", "--cursor", cursor)).toBe(`${granted[2]}\n`);
    expect(await list("--cursor", cursor)).not.toContain("More results");
  });
});
