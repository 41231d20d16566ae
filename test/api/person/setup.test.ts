// Claiming an instance that has no owner: once, with a link that only its operator could have read.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  account,
  auditRows,
  freshEmail,
  logIn,
  PASSWORD,
  receivedMail,
  team,
} from "../../../harness/instances/people.ts";
import {
  expectRefusal,
  sharedInstance,
  testInstance,
  type Reply,
  type TestInstance,
} from "../../../harness/instances/test-instance.ts";
import { issueSetupLink } from "../../../src/domain/workspaces/setup-tokens.ts";
import { formatCredential } from "../../../src/kernel/credentials.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

const tokenOf = (url: string): string => url.slice(url.indexOf("token=") + "token=".length);
const newToken = async (instance: TestInstance): Promise<string> =>
  tokenOf((await issueSetupLink(instance.app.services)).url);
const form = (token: string, more: object = {}): object => ({
  token,
  email: freshEmail("owner"),
  password: PASSWORD,
  name: "Ada",
  workspace_name: "Acme",
  workspace_slug: "acme",
  ...more,
});
const send = (instance: TestInstance, body: object): Promise<Reply> => instance.call(null, "POST /v1/setup", body);
const isOpen = async (instance: TestInstance): Promise<boolean> =>
  (await instance.call(null, "GET /v1/setup")).body.open;
const people = async (instance: TestInstance): Promise<number> => (await instance.sql("select id from users")).length;

for (const backend of runBackends) {
  describe(`setup on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("is open until someone owns a workspace; a workspace of the bootstrap token claims nothing", async () => {
      const shown = await instance.call("krsk_live_anything", "GET /v1/setup");
      const login = { password_min: 12, sign_up: "open", unverified_login: "allow", mail: "file" };
      expect(shown.body).toEqual({ object: "setup", open: true, ...login });
      await instance.workspace();
      instance.clock.advance(2_000);
      expect(await isOpen(instance)).toBe(true);
    });

    it("refuses an unknown, expired, mistyped or foreign token alike, before it looks at the password", async () => {
      const stale = await newToken(instance);
      instance.clock.advance(61 * MINUTE_MS);
      const token = await newToken(instance);
      const tokens = [
        stale,
        formatCredential("setup", null, new Uint8Array(24)),
        `${token}x`,
        "x",
        instance.app.bootstrap.token,
      ];
      const texts = new Set<string>();
      for (const each of tokens) {
        const reply = await send(instance, form(String(each), { password: "short" }));
        expectRefusal(reply, 400, "invalid_token");
        texts.add(reply.text);
      }
      expect(texts.size).toBe(1);
    });

    it("names the form's own fields, and a refusal does not use the token up", async () => {
      const token = await newToken(instance);
      await instance.call(instance.app.bootstrap.token, "POST /v1/workspaces", { name: "W", slug: "taken" });
      for (const [more, status, path] of [
        [{ password: "short" }, 400, "password"],
        [{ password: "acmeacme1234", workspace_slug: "acmeacme" }, 400, "password"],
        [{ workspace_slug: "A" }, 400, "workspace_slug"],
        [{ workspace_slug: "taken" }, 409, "workspace_slug"],
        [{ role: "owner" }, 400, "role"],
      ] as const) {
        const reply = await send(instance, form(token, more));
        expect([reply.status, reply.body.error.details[0].path]).toEqual([status, path]);
      }
      expect(await people(instance)).toBe(0);
      expect(await isOpen(instance)).toBe(true);
    });

    it("makes the owner, a session and everything to start with, in the test environment, once", async () => {
      await using claimed = await testInstance(backend); // the other tests need one without an owner
      const token = await newToken(claimed);
      const email = await account(claimed, freshEmail("taken-over"), "an older password 1");
      const old = await logIn(claimed, email, "an older password 1");
      const mailed = (await receivedMail(claimed)).length;
      const since = (await auditRows(claimed)).length;
      const spare = await newToken(claimed);
      const { status, body, text } = await send(claimed, form(token, { email, project_name: "Shop" }));
      expect(status, text).toBe(201);
      expect(Object.keys(body)).toEqual([
        "object",
        "session",
        "workspace",
        "project",
        "tenant",
        "secret_key",
        "api_key",
        "command",
      ]);
      expect(body.session).toMatchObject({
        object: "session",
        active_workspace_id: body.workspace.id,
        user: { email },
      });
      expect(body.session.memberships).toMatchObject([
        { workspace_id: body.workspace.id, role: "owner", slug: "acme" },
      ]);
      expect(body.project).toMatchObject({ name: "Shop", slug: "my-api", policy_version: 2 });
      expect(body.tenant).toMatchObject({ external_id: "example-customer", name: "Example customer" });
      expect(body.secret_key).toMatchObject({ env: "test", name: "First verifier", key_shown_once: true });
      expect(body.api_key).toMatchObject({ env: "test", name: "First key", project_id: body.project.id });
      const shown = await claimed.call(body.session.token, "GET /v1/keys");
      expect(shown.body.data.map(({ id }: { id: string }) => id)).toEqual([body.api_key.id]);
      const feed = await claimed.call(body.secret_key.key, `GET /v1/policy/snapshot?project_id=${body.project.id}`);
      expect(feed.status).toBe(200);
      expect((await claimed.call(body.session.token, "GET /v1/tenants")).body.data).toHaveLength(1);
      // The account that existed: new password, no old session.
      expectRefusal(await claimed.call(old.session, "GET /v1/auth/me"), 401, "invalid_session");
      expect((await logIn(claimed, email)).id).toBe(old.id);
      expect((await receivedMail(claimed)).length).toBe(mailed);
      const rows = (await auditRows(claimed)).slice(since);
      expect(rows.map(({ action }) => action)).toEqual([
        "user.password_reset",
        "session.created",
        "setup.completed",
        "session.created",
      ]);
      expect(rows[2]).toMatchObject({
        actor_id: old.id,
        target_id: null,
        payload: { workspace_id: body.workspace.id },
      });
      const log = await claimed.call(body.session.token, "GET /v1/audit_logs");
      expect(log.body.data.map(({ action }: { action: string }) => action)).toEqual([
        "workspace.created",
        "workspace_member.joined",
        "secret_key.created",
        "project.created",
        "tenant.created",
        "api_key.created",
      ]);
      expect(new Set(log.body.data.map(({ actor_id }: { actor_id: string }) => actor_id))).toEqual(new Set([old.id]));
      expect(await isOpen(claimed)).toBe(false);
      for (const used of [token, spare, "x"]) {
        const again = await send(claimed, form(used, { workspace_slug: "second" }));
        expectRefusal(again, 409, "conflict");
        expect(again.body.error.message).toBe("This server already has an owner. Log in instead.");
      }
      await expect(issueSetupLink(claimed.app.services)).rejects.toThrow("already has an owner");
      const secrets = [token, spare, body.secret_key.key, body.api_key.key, body.session.token];
      expect(secrets.filter((secret) => claimed.logs.some((line) => line.includes(secret)))).toEqual([]);
    });

    it("is closed for good by a person who creates a workspace", async () => {
      await using other = await testInstance(backend);
      const link = await newToken(other);
      expect(await isOpen(other)).toBe(true); // known for a second, as to another process
      await team(other);
      expect(await other.sql("select count(*) as n from setup_tokens where ended_at is null")).toEqual([{ n: 0 }]);
      expectRefusal(await send(other, form(link)), 409, "conflict");
      other.clock.advance(2_000);
      expect(await isOpen(other)).toBe(false);
      expectRefusal(await send(other, form(link)), 409, "conflict");
    });

    it("lets one of two claims through: two links, two processes", async () => {
      await using one = await testInstance(backend);
      const links = [await newToken(one), await newToken(one)] as const;
      await using two = backend === "postgres" ? await testInstance(backend, { beside: one }) : one;
      const replies = await Promise.all([
        send(one, form(links[0], { workspace_slug: "one" })),
        send(two, form(links[1], { workspace_slug: "two" })),
        send(two, form(links[0], { workspace_slug: "three" })),
      ]);
      expect(replies.map(({ status }) => String(status)).toSorted()).toEqual(["201", "409", "409"]);
      expect(await one.sql("select role from memberships")).toEqual([{ role: "owner" }]);
      expect(await people(one)).toBe(1);
    });

    it("keeps at most twenty links alive, and none while bootstrap is off", async () => {
      await using few = await testInstance(backend);
      const first = await newToken(few);
      for (let i = 0; i < 20; i++) {
        few.clock.advance(1);
        await newToken(few);
      }
      expect(await few.sql("select count(*) as n from setup_tokens where ended_at is null")).toEqual([{ n: 20 }]);
      expectRefusal(await send(few, form(first)), 400, "invalid_token");
      const last = await newToken(few);
      await using off = await testInstance("sqlite", { flags: { bootstrap: "off" } });
      await off.sql("insert into setup_tokens select * from (select ? as a, 0 as b, 9e15 as c, null as d)", [
        (await few.sql("select token_hash from setup_tokens order by created_at desc limit 1"))[0]
          ?.token_hash as string,
      ]);
      expect(await isOpen(off)).toBe(false);
      expectRefusal(await send(off, form(last)), 400, "invalid_token");
      await expect(issueSetupLink(off.app.services)).rejects.toThrow("KEYRACK_BOOTSTRAP");
      await team(off);
      await expect(issueSetupLink(off.app.services)).rejects.toThrow("already has an owner");
    });
  });
}

describe("a setup link", () => {
  it("replaces a wildcard address, and uses the public URL where there is one", async () => {
    await using wild = await testInstance("sqlite", { flags: { host: "0.0.0.0" } });
    expect((await issueSetupLink(wild.app.services)).url).toMatch(
      /^http:\/\/localhost:\d+\/#\/setup\?token=krset_[\w-]{40}$/,
    );
    await using named = await testInstance("sqlite", { flags: { public_url: "https://keys.example.com/rack" } });
    expect((await issueSetupLink(named.app.services)).url).toMatch(
      /^https:\/\/keys\.example\.com\/rack\/#\/setup\?token=/,
    );
  });
});
