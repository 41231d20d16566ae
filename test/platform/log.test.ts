// What the log contains of a request, and what it never contains: the tests plant every kind of credential everywhere.
import { beforeAll, expect, it, vi } from "vitest";
import { createLog, redact } from "../../src/platform/log.ts";
import { mint, mintKey } from "../../src/domain/auth/new-credentials.ts";
import { formatInviteToken } from "../../src/kernel/credentials.ts";
import { endpoints } from "../../src/api/index.ts";
import { sharedInstance, testInstance, type Workspace } from "../../harness/instances/test-instance.ts";

const instance = sharedInstance("sqlite", { flags: { vendor_per_minute: "0" } });
let workspace: Workspace;
beforeAll(async () => {
  workspace = await instance.workspace();
});

const JWT = `eyJhbGciOiJFZERTQSJ9.${"a".repeat(60)}.${"b".repeat(60)}`;
const secrets = (): string[] => [
  mint("api_key", "live").text,
  mint("secret_key", "test").text,
  mint("session").text,
  mint("bootstrap").text,
  mint("email_verification").text,
  mint("password_reset").text,
  formatInviteToken(workspace.id, new Uint8Array(24).fill(7)),
  mintKey("acme", "live").text,
  JWT,
  JWT.replaceAll(".", "%2E"),
  JWT.replaceAll(".", "%2e"),
];

it("a credential is cut to its display prefix anywhere in a line", () => {
  for (const secret of secrets()) {
    for (const line of [
      secret,
      `x\n${secret}`,
      JSON.stringify({ a: `line\n${secret}`, b: `\t${secret}` }),
      `u=${secret}&`,
    ]) {
      const tail = secret.slice(-30);
      expect(redact(line)).not.toContain(tail);
    }
  }
});

it("a display prefix alone is kept: it identifies the key", () => {
  for (const minted of [
    mint("api_key", "live"),
    mintKey("acme", "live"),
    mintKey("northwind", "test"),
    mint("secret_key", "test"),
    mint("session"),
  ]) {
    const { display_prefix } = minted.stored;
    expect(redact(JSON.stringify({ display_prefix }))).toContain(`"${display_prefix}"`);
    expect(redact(minted.text)).toBe(`${display_prefix}…`);
  }
});

it("a checkpoint stays whole, even if its base64 looks like the start of a token", () => {
  const line = JSON.stringify({
    note: `h/audit/${workspace.id}\n2\neyJhbGciOiJFZERTQSJ9+=\n\n— h/audit/${workspace.id} abeyJhbGci/=\n`,
  });
  expect(redact(line)).toBe(line);
});

for (const [url, secret] of [
  ["postgres://user:hunter2@host/db", "hunter2"],
  ["postgres://user:hun@ter2@host/db", "ter2"],
  ["redis://:hunter2@host", "hunter2"],
  ["postgres://host/db?user=a&password=hunter2&x=1", "hunter2"],
] as const) {
  it(`the password in ${url.replace(secret, "…")} is not logged`, () => {
    expect(redact(JSON.stringify({ url, mail: "a@b" }))).not.toContain(secret);
    expect(redact(JSON.stringify({ url, mail: "a@b" }))).toContain("a@b");
  });
}

it("redaction of a long line takes linear time", () => {
  for (const unit of ["kr", "krsk_", "a", "eyJ", "http://a:", "0-"])
    expect(redact(unit.repeat(10_000)).length).toBeGreaterThan(0);
});

it("refusals are logged with actor, network and request id", async () => {
  // Of its own, because the other tests use up the lines of a minute.
  await using fresh = await testInstance("sqlite");
  const own = await fresh.workspace();
  const unknown = await own.call(null, "GET /v1/workspace", undefined, {
    headers: { "x-request-id": "theirs\r\n".trim() },
  });
  const test = await own.call("sk_test", "PATCH /v1/workspace", {});
  const lines = fresh.logs.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines.filter(({ event }) => event === "refused")).toMatchObject([
    {
      endpoint: "GET /v1/workspace",
      status: 401,
      request_id: unknown.headers.get("request-id"),
      x_request_id: "theirs",
    },
    {
      endpoint: "PATCH /v1/workspace",
      status: 403,
      actor_type: "secret_key",
      actor_id: own.keyIds.sk_test,
      network: "127.0.0.0/24",
      request_id: test.headers.get("request-id"),
    },
  ]);
});

it("no credential in a header, a path, a query or a body reaches the log or the response", async () => {
  const from = instance.logs.length;
  const withBody = endpoints.filter(({ bodyLimits }) => bodyLimits.bytes > 0);
  for (const [n, secret] of secrets().entries()) {
    // Each endpoint gets a third of the kinds, each kind a third of the endpoints.
    for (const { name } of withBody.filter((_, at) => (at + n) % 3 === 0)) {
      const [method = "", path = ""] = name.split(" ");
      const route = `${method} ${path.replace("{id}", encodeURIComponent(secret))}?${encodeURIComponent(secret)}=1&env=${secret}`;
      const body = method === "GET" || method === "DELETE" ? undefined : { name: [secret], env: secret };
      const headers = { "x-request-id": secret, traceparent: secret, "idempotency-key": `${secret} ${secret}` };
      for (const bearer of [secret, workspace.keys.sk_owner]) {
        const { status } = await instance.call(bearer, route, body, { headers });
        expect(status, route).toBeLessThan(500);
      }
    }
    const written = instance.logs.slice(from).join("");
    expect(written.includes(secret.slice(-30))).toBe(false);
  }
});

it("an internal error is logged with its request id and not shown to the caller", async () => {
  const broken = vi.spyOn(instance.app.services.store.read, "first").mockRejectedValue(new Error("secret internals"));
  const reply = await workspace.call("sk_owner", "GET /v1/workspace");
  broken.mockRestore();
  expect(reply.status).toBe(500);
  expect(reply.text).not.toContain("internals");
  const line = instance.logs.find((text) => text.includes(reply.headers.get("request-id") ?? "none"));
  expect(line).toContain("secret internals");
});

it("an error response waits until the state it reports is durable, and is 503 when that fails", async () => {
  const gone = await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "gone" });
  await workspace.call("sk_owner", `DELETE /v1/tenants/${gone.body.id}`);
  for (const [synced, status] of [
    [true, 404],
    [false, 503],
  ] as const) {
    const gate = Promise.withResolvers<void>();
    gate.promise.catch(() => {});
    const awaited = Promise.withResolvers<void>();
    const durable = vi.spyOn(instance.app.services.store, "durable").mockImplementation(() => {
      awaited.resolve();
      return gate.promise;
    });
    const reply = workspace.call("sk_owner", `GET /v1/tenants/${gone.body.id}`);
    await awaited.promise; // hangs if the response does not wait for durability
    durable.mockRestore();
    if (synced) gate.resolve();
    else gate.reject(new Error("the disk is gone"));
    expect((await reply).status).toBe(status);
  }
});

it("a reader that does not read costs lines, the lowest level first, and the next line says how many", () => {
  const lines: string[] = [];
  let waiting = 0;
  const log = createLog({ level: "debug", write: (line) => void lines.push(line), waiting: () => waiting });
  const all = (): void => {
    for (const level of ["debug", "info", "warn", "error"] as const) log[level](`a ${level}`);
  };
  const written = (): string[] => lines.splice(0).map((line) => (JSON.parse(line) as { event: string }).event);
  const MIB = 1024 * 1024;
  waiting = MIB / 2;
  all();
  expect([written(), log.dropped]).toEqual([["log lines dropped", "a warn", "a error"], 2]);
  waiting = MIB;
  all();
  expect([written(), log.dropped]).toEqual([[], 6]);
  waiting = 0;
  log.info("again");
  expect(JSON.parse(lines[0] ?? "{}")).toMatchObject({ level: "warn", event: "log lines dropped", count: 4 });
  expect(written()).toEqual(["log lines dropped", "again"]);
});

it("control characters are escaped in both forms, those above ASCII too", () => {
  const lines: string[] = [];
  for (const pretty of [true, false])
    createLog({ level: "info", write: (line) => void lines.push(line), pretty }).info("refused", {
      id: "a\u009b31mX\u2028",
    });
  for (const line of lines) expect(line).toContain("a\\u009b31mX\\u2028");
  expect(JSON.parse(lines[1] ?? "")).toMatchObject({ id: "a\u009b31mX\u2028" });
});
