// The secret scanner's webhook: what it verifies, what it stops, whom it notifies, and what it must not change.
import { createHash } from "node:crypto";
import { beforeEach, describe, expect, it } from "vitest";
import { formatApiKey, formatCredential, PREFIXES, type CredentialKind } from "../../../src/kernel/credentials.ts";
import { parseReports } from "../../../src/domain/leaks/leaks.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { auditRows, freshEmail, receivedMail, memberOf, person, team } from "../../../harness/instances/people.ts";
import { expectRefusal, type TestInstance } from "../../../harness/instances/test-instance.ts";
import { report, ROUTE, scannerFixture, WHERE } from "../../../harness/instances/scanner.ts";
import { GITHUB, headersFor, signed } from "../../../harness/instances/scanner-keys.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";
import { mistyped } from "../../../harness/mistyped.ts";

const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
const LEAK_MAIL = "Action required: a key was leaked";
const iso = (ms: number): string => new Date(ms).toISOString();

for (const backend of runBackends) {
  describe(`the scanner webhook on ${backend}`, () => {
    const { now, labels } = scannerFixture(backend);
    let instance: TestInstance;
    beforeEach(() => {
      instance = now();
    });

    it("verifies GitHub's own vector and reports its token as unknown", async () => {
      for (const family of ["Github", "Scanner"] as const) {
        const headers = headersFor(GITHUB.body, family, GITHUB.signature, GITHUB.identifier);
        const reply = await instance.call(null, ROUTE, undefined, { raw: GITHUB.body, headers });
        expect(reply.status, reply.text).toBe(200);
        expect(reply.body).toEqual([
          { token_hash: sha("some_token"), token_type: "some_type", label: "false_positive" },
        ]);
      }
      const headers = headersFor(GITHUB.body, "Github", GITHUB.signature, GITHUB.identifier);
      expectRefusal(
        await instance.call(null, ROUTE, undefined, { raw: `${GITHUB.body} `, headers }),
        401,
        "invalid_signature",
      );
    });

    it("quarantines a live key within one request: expiry, policy, audit and mail", async () => {
      const t = await team(instance);
      const second = await memberOf(instance, t, "owner");
      const admin = await memberOf(instance, t, "admin");
      const project = (await instance.call(t.key, "POST /v1/projects", { name: "API", slug: "api" })).body;
      const tenant = (await instance.call(t.key, "POST /v1/tenants", { external_id: "c" })).body;
      const want = { project_id: project.id, tenant_id: tenant.id, env: "live" };
      const key = (await instance.call(t.key, "POST /v1/keys", want)).body;
      const before = (await instance.call(t.key, `GET /v1/policy/snapshot?project_id=${project.id}`)).body;
      const rows = (await auditRows(instance, t.id)).length;
      const now = instance.clock.now();
      const reply = await report(instance, [{ token: key.key, ...WHERE }], "Github");
      expect(reply.status, reply.text).toBe(200);
      expect(reply.body).toEqual([{ token_hash: sha(key.key), token_type: WHERE.type, label: "true_positive" }]);

      const after = (await instance.call(t.key, `GET /v1/keys/${key.id}`)).body;
      const reason = `secret_scanning: ${WHERE.source} ${WHERE.url}`;
      expect(after).toMatchObject({
        quarantined_at: iso(now),
        quarantine_reason: reason,
        expires_at: iso(now + HOUR_MS),
        revoked_at: null,
      });
      const delta = (
        await instance.call(t.key, `GET /v1/policy/delta?project_id=${project.id}&since=${before.version}`)
      ).body;
      expect(delta.version).toBe(before.version + 1);
      expect(delta.changes).toMatchObject([{ change: "upsert", key_id: key.id, expires_at: iso(now + HOUR_MS) }]);
      expect((await auditRows(instance, t.id)).slice(rows)).toMatchObject([
        {
          action: "api_key.quarantined",
          actor_type: "scanner",
          actor_id: null,
          target_id: key.id,
          payload: { env: "live", reason, expires_at: iso(now + HOUR_MS) },
        },
      ]);
      for (const owner of [t.owner, second]) {
        const mine = (await receivedMail(instance, owner.email)).filter(({ subject }) => subject === LEAK_MAIL);
        expect(mine).toHaveLength(1);
        expect(mine[0]?.text).toContain(key.display_prefix);
        expect(mine[0]?.text).toContain(WHERE.url);
        expect(mine[0]?.text).not.toContain(key.key);
      }
      expect((await receivedMail(instance, admin.email)).filter(({ subject }) => subject === LEAK_MAIL)).toEqual([]);
    });

    it("quarantines keys with prefixes of the project's own, current and earlier, and labels look-alikes", async () => {
      const w = await instance.workspace();
      const billing_email = freshEmail("billing");
      await w.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const ours = await w.mint();
      const choose = (key_prefix: string) => w.call("sk_owner", `PATCH /v1/projects/${w.project_id}`, { key_prefix });
      expect((await choose("acme")).status).toBe(200);
      const [earlier, test] = [await w.mint(), await w.mint({ env: "test" })];
      expect((await choose("northwind")).status).toBe(200);
      const current = await w.mint();
      const successor = (await w.call("sk_owner", `POST /v1/keys/${ours.id}/rotate`, {})).body;
      const keys = [ours, earlier, current, successor] as { id: string; key: string; display_prefix: string }[];
      const prefixes = keys.map(({ key }) => key.slice(0, key.indexOf("_")));
      expect(prefixes).toEqual(["kr", "acme", "northwind", "northwind"]);
      const others = [
        `x${earlier.key}`, // another prefix: the CRC covers it
        formatApiKey("acme", "live", new Uint8Array(24)), // the right form, of no key
        earlier.key.replace("_live_", "_test_"),
      ];
      // The location may have the key itself, and not in a form that is only ours.
      const where = { ...WHERE, url: `https://example.com/?key=${current.key}` };
      const tokens = [...keys.map(({ key }) => key), test.key, ...others];
      const { body } = await report(
        instance,
        tokens.map((token) => ({ token, ...where })),
      );
      expect(body.map(({ label }: { label: string }) => label)).toEqual([
        ...Array(5).fill("true_positive"),
        ...Array(3).fill("false_positive"),
      ]);
      for (const { id } of keys) {
        const { body: shown } = await w.call("sk_owner", `GET /v1/keys/${id}`);
        expect(shown.quarantined_at).toBe(iso(instance.clock.now()));
        expect(shown.quarantine_reason).toContain(`?key=${current.display_prefix as string}…`);
        expect(shown.quarantine_reason).not.toContain(current.key);
      }
      const { body: untouched } = await w.call("sk_owner", `GET /v1/keys/${test.id}`);
      expect([untouched.quarantined_at, untouched.expires_at]).toEqual([null, null]);
      const { data: caught } = (await w.call("sk_owner", "GET /v1/keys?state=quarantined")).body;
      expect(caught.map(({ id }: { id: string }) => id).toSorted()).toEqual(keys.map(({ id }) => id).toSorted());
      const mails = (await receivedMail(instance, billing_email)).map(({ text }) => text);
      expect(mails).toHaveLength(5);
      for (const { key, display_prefix } of [...keys, test as (typeof keys)[0]]) {
        expect(mails.filter((text) => text.includes(display_prefix)).length).toBeGreaterThan(0);
        expect(mails.join()).not.toContain(key);
      }
      expect(instance.logs.join()).not.toContain(current.key);
    });

    it("repeats nothing: no second row, version or mail, and the same expiry", async () => {
      const w = await instance.workspace();
      const billing_email = freshEmail("billing");
      await w.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const [live, test] = [await w.mint(), await w.mint({ env: "test" })];
      expect(await labels(live.key, live.key, test.key, test.key)).toEqual(Array(4).fill("true_positive"));
      const first = (await w.call("sk_owner", `GET /v1/keys/${live.id}`)).body;
      instance.clock.advance(60_000);
      expect(await labels(live.key, test.key)).toEqual(["true_positive", "true_positive"]);
      expect((await w.call("sk_owner", `GET /v1/keys/${live.id}`)).body).toEqual(first);
      expect((await w.actions()).filter((action) => action.endsWith("quarantined"))).toEqual(["api_key.quarantined"]);
      expect(await receivedMail(instance, billing_email)).toHaveLength(2);
    });

    it("does not change a test key, and notifies the owner", async () => {
      const w = await instance.workspace();
      const billing_email = freshEmail("billing");
      await w.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const key = await w.mint({ env: "test" });
      const before = (await w.call("sk_owner", `GET /v1/keys/${key.id}`)).body;
      const actions = await w.actions();
      expect(await labels(key.key, w.keys.sk_test)).toEqual(["true_positive", "true_positive"]);
      expect((await w.call("sk_owner", `GET /v1/keys/${key.id}`)).body).toEqual(before);
      expect(await w.actions()).toEqual(actions);
      expect((await w.call("sk_test", "GET /v1/workspace")).status).toBe(200);
      const mails = (await receivedMail(instance, billing_email)).map(({ text }) => text);
      expect(mails).toHaveLength(2);
      for (const text of mails) expect(text).toContain("nothing was changed");
    });

    it("quarantines a live secret key, which the credential cache accepts no longer than the hour", async () => {
      const w = await instance.workspace();
      const poll = () => w.call("sk_admin", `GET /v1/policy/delta?project_id=${w.project_id}&since=1`);
      expect((await poll()).status).toBe(304);
      const now = instance.clock.now();
      expect(await labels(w.keys.sk_admin)).toEqual(["true_positive"]);
      const shown = (await w.call("sk_owner", `GET /v1/secret_keys/${w.keyIds.sk_admin}`)).body;
      expect(shown).toMatchObject({ quarantined_at: iso(now), expires_at: iso(now + HOUR_MS) });
      expect(await w.actions()).toEqual(["secret_key.quarantined"]);
      instance.clock.advance(HOUR_MS - 1_000);
      expect((await poll()).status).toBe(304); // cached again, with the new expiry
      instance.clock.advance(1_000);
      expectRefusal(await poll(), 401, "invalid_key");
    });

    it("never changes an earlier expiry or revocation", async () => {
      const w = await instance.workspace();
      const soon = iso(instance.clock.now() + 60_000);
      const [ending, revoked] = [await w.mint({ expires_at: soon }), await w.mint()];
      await w.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, { reason: "lost" });
      const before = (await w.call("sk_owner", `GET /v1/keys/${revoked.id}`)).body;
      expect(await labels(ending.key, revoked.key)).toEqual(["true_positive", "true_positive"]);
      expect((await w.call("sk_owner", `GET /v1/keys/${ending.id}`)).body.expires_at).toBe(soon);
      expect((await w.call("sk_owner", `GET /v1/keys/${revoked.id}`)).body).toEqual(before);
      const later = { expires_at: iso(instance.clock.now() + 2 * HOUR_MS) };
      expectRefusal(await w.call("sk_owner", `PATCH /v1/keys/${ending.id}`, later), 409, "conflict");
    });

    it("ends a session and one-time links, and reports the bootstrap token", async () => {
      const p = await person(instance);
      const since = (await auditRows(instance)).length;
      await instance.call(null, "POST /v1/auth/password_resets", { email: p.email });
      const token = (await receivedMail(instance, p.email)).at(-1)?.token ?? "";
      expect(await labels(p.session, token, instance.app.bootstrap.token ?? "")).toEqual(
        Array(3).fill("true_positive"),
      );
      expectRefusal(await instance.call(p.session, "GET /v1/auth/me"), 401, "invalid_session");
      const consume = { token, password: "another long passphrase" };
      expectRefusal(await instance.call(null, "POST /v1/auth/password_resets/consume", consume), 400, "invalid_token");
      const revoked = (await auditRows(instance)).slice(since).filter(({ action }) => action === "session.revoked");
      expect(revoked).toMatchObject([{ actor_type: "scanner", target_id: p.session_id }]);
      expect(await labels(p.session)).toEqual(["true_positive"]);
      expect((await auditRows(instance)).filter(({ target_id }) => target_id === p.session_id)).toHaveLength(2);
    });

    it("responds in order, and labels unknown tokens false positives", async () => {
      const w = await instance.workspace();
      const key = await w.mint();
      const unknown = formatCredential("api_key", "live", new Uint8Array(24).fill(5));
      expect(await labels(unknown, key.key, mistyped(key.key), "", "AKIAIOSFODNN7EXAMPLE")).toEqual([
        "false_positive",
        "true_positive",
        "false_positive",
        "false_positive",
        "false_positive",
      ]);
      expect((await report(instance, [])).body).toEqual([]);
    });

    it("keeps the key out of the reason, the mail and the log", async () => {
      const w = await instance.workspace();
      const billing_email = freshEmail("billing");
      await w.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const key = await w.mint();
      const url = `https://example.com/search?q=${key.key}\n${"x".repeat(600)}`;
      expect((await report(instance, [{ token: key.key, url, source: "\u0000content" }])).status).toBe(200);
      const { quarantine_reason } = (await w.call("sk_owner", `GET /v1/keys/${key.id}`)).body;
      expect(quarantine_reason).toMatch(
        /^secret_scanning: content https:\/\/example\.com\/search\?q=kr_live_\S{6}… x+$/,
      );
      expect(quarantine_reason.length).toBe(500);
      const said = [
        quarantine_reason,
        ...(await receivedMail(instance, billing_email)).map(({ text }) => text),
        ...instance.logs,
      ];
      expect(said.filter((text) => text.includes(key.key))).toEqual([]);
    });

    it("masks every kind of credential in a location", () => {
      for (const kind of Object.keys(PREFIXES) as CredentialKind[]) {
        const env = typeof PREFIXES[kind] === "string" ? null : "test";
        const text = formatCredential(kind, env, new Uint8Array(24).fill(7));
        const [read] = parseReports(Buffer.from(JSON.stringify([{ token: "x", url: `https://example.com/${text}/` }])));
        expect(read?.location, kind).toMatch(/^https:\/\/example\.com\/\w{10,16}….$/);
      }
    });

    it("accepts unknown fields, and rejects a report that it cannot label", async () => {
      const send = (raw: string) => instance.call(null, ROUTE, undefined, { raw, headers: headersFor(raw) });
      const odd = await send('[{"token":"x","type":7,"url":null,"source":{},"location":{"line":1}}]');
      expect(odd.body).toEqual([{ token_hash: sha("x"), token_type: "", label: "false_positive" }]);
      expectRefusal(await send('{"token":"x"}'), 400, "invalid_request");
      expectRefusal(await send('[{"token":"x"},{"url":"y"}]'), 400, "invalid_request", "[1].token");
      expectRefusal(await send("[null]"), 400, "invalid_request", "[0].token");
      expectRefusal(await send("not json"), 400, "invalid_request");
      const many = JSON.stringify(Array.from({ length: 1_001 }, () => ({ token: "x" })));
      expectRefusal(await send(many), 413, "payload_too_large");
      expectRefusal(await send(`["${"x".repeat(1024 * 1024)}"]`), 413, "payload_too_large");
    });

    it("rejects everything without a valid signature, before parsing the body", async () => {
      const w = await instance.workspace();
      const key = await w.mint();
      const raw = JSON.stringify([{ token: key.key, ...WHERE }]);
      const good = headersFor(raw);
      const cases: [string, Record<string, string>, string][] = [
        ["no headers", {}, raw],
        ["no signature", { "Scanner-Public-Key-Identifier": "test-scanner" }, raw],
        ["halves of two families", { ...pick(good, 0), ...pick(headersFor(raw, "Github"), 1) }, raw],
        ["another body", good, `${raw} `],
        ["an unknown key", headersFor(raw, "Scanner", signed(raw), "nobody"), raw],
        ["another's key", headersFor(raw, "Scanner", signed(raw), GITHUB.identifier), raw],
        ["no base64", headersFor(raw, "Scanner", "%%%"), raw],
        ["no DER", headersFor(raw, "Scanner", "AAAA"), raw],
        ["an unsigned mess", {}, "not json"],
      ];
      for (const [why, headers, body] of cases) {
        const reply = await instance.call(null, ROUTE, undefined, { raw: body, headers });
        expect([why, reply.status, reply.body.error.code]).toEqual([why, 401, "invalid_signature"]);
      }
      expect((await w.call("sk_owner", `GET /v1/keys/${key.id}`)).body.quarantined_at).toBeNull();
    });
  });
}

function pick(headers: Record<string, string>, at: number): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).slice(at, at + 1));
}
