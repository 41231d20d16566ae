// What commands print: --json, --quiet, text from others, and the report of a bulk run.
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  startSeededServer,
  UNKNOWN_ID,
  UNREACHABLE,
  type SeededServer,
} from "../../harness/processes/seeded-server.ts";
import { telemetryBatch } from "../../harness/telemetry.ts";

let cli: SeededServer;

beforeAll(async () => {
  cli = await startSeededServer();
});

afterAll(() => cli?.[Symbol.asyncDispose]());

describe("output", () => {
  it("--json prints the API's body unchanged, --quiet the id, or the key on create and rotate", async () => {
    const body = await (
      await fetch(`${cli.seed.url}/v1/projects/${cli.seed.project_id}`, {
        headers: { authorization: `Bearer ${cli.seed.secret_key}` },
      })
    ).text();
    expect((await cli.run(["project", "show", cli.seed.project_id, "--json"])).stdout).toBe(`${body}\n`);
    expect((await cli.run(["project", "show", cli.seed.project_id, "--quiet"])).stdout).toBe(
      `${cli.seed.project_id}\n`,
    );
    const key = { project_id: cli.seed.project_id, tenant_id: cli.seed.tenant_id, env: "live" };
    const { id } = await cli.api("POST", "/v1/keys", key);
    const flags = ["--project-id", cli.seed.project_id, "--tenant-id", cli.seed.tenant_id, "--env", "test", "--quiet"];
    expect((await cli.run(["key", "create", ...flags])).stdout).toMatch(/^kr_test_[\w-]{40}\n$/);
    expect((await cli.run(["key", "rotate", id, "--quiet"])).stdout).toMatch(/^kr_live_[\w-]{40}\n$/);
    const refused = await cli.run(["key", "show", UNKNOWN_ID, "--json"]);
    expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: "not_found" } });
  });

  it("key find lists the keys that its words and filters match, and no others", async () => {
    const { project_id, tenant_id } = cli.seed;
    const create = (env: string) => cli.api("POST", "/v1/keys", { project_id, tenant_id, env, name: "Billing export" });
    const [live, test] = [await create("live"), await create("test")];
    const indexed = () =>
      cli.run(["key", "list", "--q", "billing", "--quiet"]).then(({ stdout }) => stdout.split("\n"));
    await expect.poll(async () => (await indexed()).filter(Boolean).length).toBe(2);
    const found = await cli.run(["key", "find", "export", "bill", "--env", "live", "--quiet"]);
    expect([found.code, found.stdout]).toEqual([0, `${live.id}\n`]);
    expect((await cli.run(["key", "find", test.id])).stdout).toContain("Billing export");
    const refused = await cli.run(["key", "find", live.key]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("lookup")]);
    expect((await cli.run(["key", "find"])).code).toBe(2);
  });

  it("secret-key list shows what each key may do, and in how many projects", async () => {
    const create = (name: string, more: object) => cli.api("POST", "/v1/secret_keys", { env: "test", name, ...more });
    await create("everything", {});
    await create("reports", { permissions: ["read", "portal"] });
    await create("verifier", { permissions: ["verify"], project_ids: [cli.seed.project_id] });
    const [head = "", ...rows] = (await cli.run(["secret-key", "list"])).stdout.split("\n");
    const at = head.indexOf("POWER");
    const powerOf = (name: string) =>
      rows
        .find((row) => row.includes(` ${name} `))
        ?.slice(at)
        .split(/ {2,}/)[0];
    expect(["everything", "reports", "verifier"].map(powerOf)).toEqual(["full", "read portal", "verify (1 project)"]);
  });

  it("node list shows the library that a node runs, with view=fleet", async () => {
    const { url, project_id, secret_key } = cli.seed;
    const headers = { authorization: `Bearer ${secret_key}`, "keyrack-sdk": "@keyrack/sdk/1.2.3" };
    await fetch(`${url}/v1/policy/delta?project_id=${project_id}&node=api-1&since=0`, { headers });
    const list = async (...more: string[]) => (await cli.run(["node", "list", ...more])).stdout.split("\n");
    await expect.poll(() => list("--view", "fleet")).toHaveLength(3);
    const [head = "", row = ""] = await list("--view", "fleet");
    expect(head).toMatch(/LIVE +LATE +DEGRADED +MISSING CAPS +WITHHELD KEYS +SDK +LAST SEEN AT/);
    expect(row).toMatch(/^api-1 .* true +true +false +- +0 +@keyrack\/sdk 1\.2\.3 +\d/);
    const [plain = ""] = await list("--project-id", project_id);
    expect(plain).toMatch(/LIVE +MISSING CAPS +WITHHELD KEYS +LAST SEEN AT/);
  });

  it("key show names where a key was last used from, and ip-report prints its rows as a table", async () => {
    const { project_id, tenant_id } = cli.seed;
    const { id } = await cli.api("POST", "/v1/keys", { project_id, tenant_id, env: "live" });
    expect((await cli.run(["key", "show", id])).stdout).not.toContain("last used from");
    const empty = (await cli.run(["key", "ip-report", id])).stdout.split("\n");
    expect(empty.slice(-2)).toEqual(["No results.", ""]);
    const client = { network: "203.0.113.0/24", user_agent: "curl" };
    const at = { ts: new Date().toISOString(), project_id, tenant_id, key_id: id, env: "live", route: null };
    const request = { method: "GET", path: "/", status: 403, duration_ms: 1, degraded: false, request_id: "1" };
    const event = { ...at, ...request, ...client, denial_reason: "ip_not_allowed" };
    await cli.api("POST", "/v1/ingest/batch", telemetryBatch([event]));
    expect((await cli.run(["key", "show", id])).stdout).toMatch(
      /\n {2}last used from +203\.0\.113\.0\/24, curl, node \S+\n/,
    );
    const [head, row] = (await cli.run(["key", "ip-report", id])).stdout.trimEnd().split("\n").slice(-2);
    expect([head, row]).toEqual([
      expect.stringMatching(/^NETWORK +OUTCOME +REQUESTS/),
      expect.stringMatching(/^203\.0\.113\.0\/24 +refused +1 /),
    ]);
  });

  it("key show says whether a key would be admitted, and why not, as key lookup does", async () => {
    const { project_id, tenant_id } = cli.seed;
    const { id } = await cli.api("POST", "/v1/keys", { project_id, tenant_id, env: "live" });
    const show = async () => (await cli.run(["key", "show", id, "--include", "verdict,successor"])).stdout;
    expect(await show()).toMatch(/\n {2}admitted +yes\n/);
    await cli.api("POST", `/v1/keys/${id}/revoke`, {});
    const revoked = await show();
    expect(revoked).toMatch(/\n {2}admitted +no\n/);
    expect(revoked).toMatch(/\n- It was revoked\. Since 2.*\n/);
    expect(revoked).not.toContain('{"');
  });

  it("invite accept says which workspace the person joined, and as what", async () => {
    const session = await cli.signUp("gil@example.com");
    const { token } = await cli.api("POST", "/v1/invites", { email: "gil@example.com", role: "admin" });
    const { code, stdout } = await cli.run(["invite", "accept", "--token", token, "--session-token", session]);
    const [first = "", ...fields] = stdout.split("\n");
    expect([code, first]).toEqual([0, expect.stringMatching(/^Joined workspace [-0-9a-f]{36} as admin\.$/)]);
    expect(fields.join("\n")).toContain(first.split(" ")[2]);
  });

  it("a field may be unset, and a bulk action named, with dashes or underscores", async () => {
    const { project_id, tenant_id } = cli.seed;
    const of = { project_id, tenant_id, env: "live", allowed_cidrs: ["203.0.113.0/24"] };
    for (const name of ["allowed_cidrs", "allowed-cidrs"]) {
      const { id } = await cli.api("POST", "/v1/keys", of);
      expect((await cli.run(["key", "update", id, "--unset", name])).code).toBe(0);
      expect(await cli.api("GET", `/v1/keys/${id}`)).not.toHaveProperty("allowed_cidrs", of.allowed_cidrs);
    }
    const match = ["--tenant-id", tenant_id, "--env", "live", "--dry-run"];
    for (const action of ["cap_expiry", "cap-expiry"]) {
      const dry = await cli.run(["key", "bulk", action, ...match]);
      expect([dry.code, dry.stdout]).toEqual([0, expect.stringMatching(/keys? would be changed/)]);
    }
    const unknown = await cli.run(["key", "bulk", "cap", ...match]);
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining("cap_expiry")]);
  });

  it("quota grant says when a reference was used before, and quota void that it ends the grant", async () => {
    const quotas = [{ id: "calls", amount: 10, refill: "none" }];
    const { id } = await cli.api("POST", "/v1/tenants", { external_id: "granted", quotas });
    const args = [
      "quota",
      "grant",
      "--tenant-id",
      id,
      "--quota-id",
      "calls",
      "--units",
      "3",
      "--reference",
      "invoice-1",
    ];
    expect((await cli.run(args)).stdout).toMatch(/^Granted 3 units\.\n/);
    const { stdout } = await cli.run(args);
    expect(stdout).toMatch(/^Granted before: nothing was added\.\n/);
    const grant = /^ {2}id +(\S+)$/m.exec(stdout)?.[1] ?? "";
    expect((await cli.run(["quota", "void", grant])).stdout).toMatch(new RegExp(`^Voided grant ${grant}\\.\n`));
  });

  it("text from others cannot control the terminal", async () => {
    await cli.api("POST", "/v1/tenants", { external_id: "evil", name: "\u001b[2J\u202egnp" });
    const { stdout } = await cli.run(["tenant", "list"]);
    expect(stdout).not.toContain("\u001b");
    expect(stdout).toContain("\\u001b[2J\\u202egnp");
  });

  it("status --ready prints nothing: 0 when ready, 3 when not, whatever the reason", async () => {
    const asked: (string | undefined)[] = [];
    const notReady = createServer((request, response) => {
      asked.push(request.url);
      response.writeHead(503).end("{}");
    }).listen(0, "127.0.0.1");
    await once(notReady, "listening");
    const unready = `http://127.0.0.1:${(notReady.address() as AddressInfo).port}`;
    const silent = (code: number) => ({ code, stdout: "", stderr: "" });
    expect(await cli.run(["status", "--ready"])).toEqual(silent(0));
    expect(await cli.run(["status", "--ready", "--json"])).toEqual(silent(0));
    expect(await cli.run(["status", "--ready", "--url", unready])).toEqual(silent(3));
    expect(await cli.run(["status", "--ready", "--url", UNREACHABLE])).toEqual(silent(3));
    expect(asked).toEqual(["/readyz"]);
    notReady.close();
    const misused = await cli.run(["status", "--ready", "--url", "keys.example.com"]);
    expect(misused).toMatchObject({ code: 2, stdout: "" });
    expect(misused.stderr).toContain("is not an http:// or https:// URL");
  });

  it("a bulk run resumes after an interruption and creates nothing twice", async () => {
    const csv = join(cli.dir, "bulk.csv");
    writeFileSync(csv, `tenant_id,name\n${`${cli.seed.tenant_id},k\n`.repeat(6)}`);
    const args = ["key", "create", "--from-csv", csv, "--project-id", cli.seed.project_id, "--env", "live"];
    expect((await cli.run([...args, "--url", UNREACHABLE])).code).toBe(3);
    expect((await cli.run(args)).stdout).toContain("Created 6 keys from 6 rows.");
    const state = readFileSync(`${csv}.keyrack-state`, "utf8").split("\n");
    writeFileSync(`${csv}.keyrack-state`, `${state.slice(0, 3).join("\n")}\n{"row":`); // as after a crash
    expect((await cli.run(args)).stdout).toContain("Created 0 keys from 6 rows. An earlier run created 6.");
    const keys = readFileSync(`${csv}.keys.csv`, "utf8").trim().split("\n").slice(1);
    expect(new Set(keys.map((line) => line.split(",")[0])).size).toBe(6);
    expect(keys).toHaveLength(6);
  });

  it("[] and an empty text are the empty list", async () => {
    const { project_id, tenant_id } = cli.seed;
    const lists = { scopes: ["orders:read"], allowed_cidrs: ["203.0.113.0/24"] };
    const { id } = await cli.api("POST", "/v1/keys", { project_id, tenant_id, env: "live", ...lists });
    const args = ["key", "update", id, "--json"];
    for (const empty of ["[]", ""]) {
      await cli.api("PATCH", `/v1/keys/${id}`, lists);
      const { stdout } = await cli.run([...args, "--scopes", empty, "--allowed-cidrs", empty]);
      expect(JSON.parse(stdout)).toMatchObject({ scopes: [], allowed_cidrs: [] });
    }
    expect((await cli.run(["key", "usage", id, "--quiet"])).stdout).toBe(`${id}\n`);
  });
});
