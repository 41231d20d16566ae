// New keys on standard output, as a shell redirects it: complete, and without anything else between them.
import { execFile, execFileSync } from "node:child_process";
import { closeSync, constants, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { keyrack, tempDir, type Ran } from "../../harness/processes/cli.ts";
import { BIN, cleanEnv } from "../../harness/processes/server.ts";
import { scriptedServer, type Scripted, type ScriptedRequest } from "./scripted-server.ts";

const CREATED = { id: "k1", key: "kr_live_1", display_prefix: "kr_live_1", tenant_id: "t", name: null };
const CREATED_CSV = "id,key,display_prefix,tenant_id,name\nk1,kr_live_1,kr_live_1,t,\n";
const ROTATED = { id: "a", successor_id: "b", key: "kr_live_2", project_id: "p", tenant_id: "t", env: "live" };
const ROTATED_CSV = "id,successor_id,key,project_id,tenant_id,env,name\na,b,kr_live_2,p,t,live,\n";

const CREATE = "key create --from-csv in.csv --project-id p --env live --out /dev/stdout";
const ROTATE = "key bulk rotate --all --yes --out /dev/stdout";

function answer({ route }: ScriptedRequest): Scripted {
  if (route === "GET /v1/workspace") return { json: { id: "w" } };
  if (route === "POST /v1/keys") return { status: 201, json: CREATED };
  return { json: { bulk_id: "0198", matched: 1, changed: 1, data: [ROTATED], next_cursor: null, versions: [] } };
}

/** Runs a shell command in which `keyrack` is the program. */
async function shell(dir: string, command: string): Promise<Ran> {
  await using server = await scriptedServer(answer);
  writeFileSync(join(dir, "in.csv"), "tenant_id\nt\n");
  const env = cleanEnv({ KEYRACK_URL: server.url, KEYRACK_SECRET_KEY: "krsk_live_x", HOME: dir });
  const script = `keyrack() { "$0" "$@"; }; ${command}`;
  return await new Promise((resolve) => {
    const child = execFile("sh", ["-c", script, BIN], { cwd: dir, env }, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

describe.each([
  ["key create --from-csv", CREATE, CREATED_CSV, "Created 1 key from 1 row."],
  ["key bulk rotate", ROTATE, ROTATED_CSV, "Rotated 1 key."],
])("%s --out /dev/stdout", (_name, args, csv, summary) => {
  it("writes only the keys to a pipe, and the summary to stderr", async () => {
    using temp = tempDir();
    const ran = await shell(temp.dir, `keyrack ${args} | cat`);
    expect(ran).toMatchObject({ code: 0, stdout: csv, stderr: expect.stringContaining(summary) as string });
  });

  it.each([">", ">>"])("writes only the keys to a file (%s), and the summary to stderr", async (redirect) => {
    using temp = tempDir();
    const ran = await shell(temp.dir, `keyrack ${args} ${redirect} keys.csv`);
    expect(ran).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining(summary) as string });
    expect(readFileSync(join(temp.dir, "keys.csv"), "utf8")).toBe(csv);
  });

  it("keeps every key where stderr goes to the same file", async () => {
    using temp = tempDir();
    const ran = await shell(temp.dir, `keyrack ${args} --quiet > keys.csv 2>&1`);
    expect([ran.code, readFileSync(join(temp.dir, "keys.csv"), "utf8").startsWith(csv)]).toEqual([0, true]);
  });
});

it("results stay on standard output where the keys go elsewhere", async () => {
  using temp = tempDir();
  const ran = await shell(temp.dir, `keyrack ${CREATE.replace("/dev/stdout", "/dev/null")} --json`);
  expect([ran.code, ran.stderr]).toEqual([0, ""]);
  expect(JSON.parse(ran.stdout)).toMatchObject({ made: 1, out: "/dev/null" });
});

it.each([
  ["key create --from-csv", CREATE, "0 of 20 keys created. Run the same command to continue."],
  ["key bulk rotate", ROTATE, "Continue with: keyrack key bulk rotate --resume keyrack-bulk-0198.json"],
])("%s stops where the reader of its pipe has left, and says how to continue", async (_name, args, advice) => {
  using temp = tempDir();
  const pipe = join(temp.dir, "pipe");
  execFileSync("mkfifo", [pipe]);
  let reader: number | null = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
  let changes = 0;
  await using server = await scriptedServer((request) => {
    if (request.route === "GET /v1/workspace" || request.body.dry_run === true) return answer(request);
    if (reader !== null) closeSync(reader);
    reader = null;
    changes++;
    return answer(request);
  });
  writeFileSync(join(temp.dir, "in.csv"), `tenant_id\n${"t\n".repeat(20)}`);
  const env = { KEYRACK_URL: server.url, KEYRACK_SECRET_KEY: "krsk_live_x", HOME: temp.dir };
  const ran = await keyrack(args.replace("/dev/stdout", pipe).split(" "), { env, cwd: temp.dir });
  expect([ran.code, ran.stderr]).toEqual([1, expect.stringContaining(`Cannot write ${pipe}: EPIPE.`)]);
  expect(ran.stderr).toContain(advice);
  expect(changes).toBeLessThan(20); // those that were under way
});
