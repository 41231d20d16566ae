// `keyrack key bulk` with a server that goes away, and with nodes that do not have the change.
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { keyrack, tempDir } from "../../harness/processes/cli.ts";
import { scriptedServer, type Scripted, type ScriptedRequest } from "./scripted-server.ts";

const FILE = "keyrack-bulk-0198.json";
const key = (id: string) => ({
  id,
  project_id: "p",
  tenant_id: "t",
  env: "live",
  display_prefix: "kr_live_a",
  name: null,
});
const page = (keys: string[], next_cursor: string | null, version: number): Scripted => ({
  json: {
    bulk_id: "0198",
    matched: 2,
    changed: keys.length,
    data: keys.map(key),
    next_cursor,
    versions: [{ project_id: "p", version }],
  },
});
const NODE = {
  node_id: "node-7",
  env_scope: "all",
  version: 3,
  acked: false,
  caps: [],
  missing_caps: [],
  last_seen_at: "2026-11-17T00:00:00.000Z",
};
const LATE: Scripted = {
  json: { project_id: "p", complete: false, acked_nodes: 0, total_nodes: 1, withheld_nodes: 0, nodes: [NODE] },
};

/** Answers pages in order; dry runs and receipts are always the same. */
const answers =
  (pages: Scripted[]) =>
  ({ route, body }: ScriptedRequest): Scripted => {
    if (route === "GET /v1/propagation") return LATE;
    return body.dry_run === true ? page(["a", "b"], null, 1) : (pages.shift() ?? "lost");
  };

it("ends with 3 where the server goes away between pages, and continues from any folder with the file it names", async () => {
  using at = tempDir();
  const other = join(at.dir, "other");
  mkdirSync(other);
  await using server = await scriptedServer(answers([page(["a"], "c", 2), "lost", "lost", page(["b"], null, 3)]));
  const env = { KEYRACK_URL: server.url, KEYRACK_SECRET_KEY: "krsk_live_x", HOME: at.dir };
  const bulk = (cwd: string, ...args: string[]) => keyrack(["key", "bulk", "revoke", ...args], { env, cwd });
  const advice = (file: string) => `1 of 2 keys changed. Continue with: keyrack key bulk revoke --resume ${file}\n`;

  const cut = await bulk(at.dir, "--all", "--yes");
  expect([cut.code, cut.stderr.endsWith(advice(FILE)), readdirSync(at.dir)]).toEqual([3, true, [FILE, "other"]]);
  const again = await bulk(other, "--resume", `../${FILE}`);
  expect([again.code, again.stderr.endsWith(advice(`../${FILE}`))]).toEqual([3, true]);
  const done = await bulk(other, "--resume", `../${FILE}`, "--quiet");
  expect([done.code, done.stdout, readdirSync(other), readdirSync(at.dir)]).toEqual([0, "2\n", [], ["other"]]);
});

it("ends with 1 and names the nodes that do not have the change yet", async () => {
  using at = tempDir();
  await using server = await scriptedServer(answers([page(["a", "b"], null, 3)]));
  const env = { KEYRACK_URL: server.url, KEYRACK_SECRET_KEY: "krsk_live_x", HOME: at.dir };
  const args = ["key", "bulk", "revoke", "--all", "--yes", "--wait"];
  const { code, stdout, stderr } = await keyrack(args, { env, cwd: at.dir });
  expect([code, stderr]).toEqual([1, "keyrack: The keys were changed, but not yet confirmed by: node-7.\n"]);
  expect(stdout).toContain("Acknowledged by 0 of 1 node of project p.");
  expect(readdirSync(at.dir)).toEqual([]);
});
