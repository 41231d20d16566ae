// The secret scanner's webhook: what it believes, what it stops, whom it tells, and what it must leave alone.
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { formatCredential } from "../../../src/kernel/credentials.ts";
import { createKeyrackWith } from "../../../src/sdk/keyrack.ts";
import { patientPorts } from "../../../harness/sdk/ports.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { auditRows, freshEmail, receivedMail, memberOf, person, team } from "../../../harness/instances/people.ts";
import { expectRefusal, testInstance, type TestInstance } from "../../../harness/instances/test-instance.ts";
import { GITHUB, headersFor, report, ROUTE, scannerKeysFile, signed } from "../../../harness/instances/scanner.ts";

const HOUR_MS = 3_600_000;
const WHERE = { type: "keyrack_api_key", url: "https://github.com/acme/app/blob/main/.env", source: "commit" };
const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
const iso = (ms: number): string => new Date(ms).toISOString();

for (const back of backends) {
  describe(`the scanner webhook on ${back}`, () => {
    const keys = scannerKeysFile();
    let r: TestInstance;
    beforeAll(async () => {
      r = await testInstance(back, { flags: { scanner_keys_file: keys.file } });
    });
    afterAll(async () => {
      await r[Symbol.asyncDispose]();
      keys[Symbol.dispose]();
    });
    const labels = async (...tokens: string[]): Promise<string[]> => {
      const reply = await report(
        r,
        tokens.map((token) => ({ token, ...WHERE })),
      );
      expect(reply.status, reply.text).toBe(200);
      return reply.body.map(({ label }: { label: string }) => label);
    };

    it("verifies GitHub's own vector and knows nothing of its token", async () => {
      for (const family of ["Github", "Scanner"] as const) {
        const headers = headersFor(GITHUB.body, family, GITHUB.signature, GITHUB.identifier);
        const reply = await r.call(null, ROUTE, undefined, { raw: GITHUB.body, headers });
        expect(reply.status, reply.text).toBe(200);
        expect(reply.body).toEqual([
          { token_hash: sha("some_token"), token_type: "some_type", label: "false_positive" },
        ]);
      }
      const headers = headersFor(GITHUB.body, "Github", GITHUB.signature, GITHUB.identifier);
      expectRefusal(
        await r.call(null, ROUTE, undefined, { raw: `${GITHUB.body} `, headers }),
        401,
        "invalid_signature",
      );
    });

    it("quarantines a live key within one request: expiry, policy, audit and mail", async () => {
      const t = await team(r);
      const second = await memberOf(r, t, "owner");
      const admin = await memberOf(r, t, "admin");
      const project = (await r.call(t.key, "POST /v1/projects", { name: "API", slug: "api" })).body;
      const tenant = (await r.call(t.key, "POST /v1/tenants", { external_id: "c" })).body;
      const want = { project_id: project.id, tenant_id: tenant.id, env: "live" };
      const key = (await r.call(t.key, "POST /v1/keys", want)).body;
      const before = (await r.call(t.key, `GET /v1/policy/snapshot?project_id=${project.id}`)).body;
      const rows = (await auditRows(r, t.id)).length;
      const now = r.clock.now();
      const reply = await report(r, [{ token: key.key, ...WHERE }], "Github");
      expect(reply.status, reply.text).toBe(200);
      expect(reply.body).toEqual([{ token_hash: sha(key.key), token_type: WHERE.type, label: "true_positive" }]);

      const after = (await r.call(t.key, `GET /v1/keys/${key.id}`)).body;
      const reason = `secret_scanning: ${WHERE.source} ${WHERE.url}`;
      expect(after).toMatchObject({
        quarantined_at: iso(now),
        quarantine_reason: reason,
        expires_at: iso(now + HOUR_MS),
        revoked_at: null,
      });
      const delta = (await r.call(t.key, `GET /v1/policy/delta?project_id=${project.id}&since=${before.version}`)).body;
      expect(delta.version).toBe(before.version + 1);
      expect(delta.changes).toMatchObject([{ change: "upsert", key_id: key.id, expires_at: iso(now + HOUR_MS) }]);
      expect((await auditRows(r, t.id)).slice(rows)).toMatchObject([
        {
          action: "api_key.quarantined",
          actor_type: "scanner",
          actor_id: null,
          target_id: key.id,
          payload: { env: "live", reason, expires_at: iso(now + HOUR_MS) },
        },
      ]);
      for (const owner of [t.owner, second]) {
        const mine = (await receivedMail(r, owner.email)).filter(({ subject }) =>
          subject.startsWith("Leaked key found"),
        );
        expect(mine).toHaveLength(1);
        expect(mine[0]?.text).toContain(key.display_prefix);
        expect(mine[0]?.text).toContain(WHERE.url);
        expect(mine[0]?.text).not.toContain(key.key);
      }
      expect(
        (await receivedMail(r, admin.email)).filter(({ subject }) => subject.startsWith("Leaked key found")),
      ).toEqual([]);
    });

    it("does nothing twice: no second row, version or mail, and the hour does not move", async () => {
      const w = await r.workspace();
      const billing_email = freshEmail("billing");
      await w.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const [live, test] = [await w.mint(), await w.mint({ env: "test" })];
      expect(await labels(live.key, live.key, test.key, test.key)).toEqual(Array(4).fill("true_positive"));
      const first = (await w.call("sk_owner", `GET /v1/keys/${live.id}`)).body;
      r.clock.advance(60_000);
      expect(await labels(live.key, test.key)).toEqual(["true_positive", "true_positive"]);
      expect((await w.call("sk_owner", `GET /v1/keys/${live.id}`)).body).toEqual(first);
      expect((await w.actions()).filter((action) => action.endsWith("quarantined"))).toEqual(["api_key.quarantined"]);
      expect(await receivedMail(r, billing_email)).toHaveLength(2);
    });

    it("leaves a test key as it is, and says so to the owner", async () => {
      const w = await r.workspace();
      const billing_email = freshEmail("billing");
      await w.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const key = await w.mint({ env: "test" });
      const before = (await w.call("sk_owner", `GET /v1/keys/${key.id}`)).body;
      const actions = await w.actions();
      expect(await labels(key.key, w.keys.sk_test)).toEqual(["true_positive", "true_positive"]);
      expect((await w.call("sk_owner", `GET /v1/keys/${key.id}`)).body).toEqual(before);
      expect(await w.actions()).toEqual(actions);
      expect((await w.call("sk_test", "GET /v1/workspace")).status).toBe(200);
      const told = (await receivedMail(r, billing_email)).map(({ text }) => text);
      expect(told).toHaveLength(2);
      for (const text of told) expect(text).toContain("nothing was changed");
    });

    it("quarantines a live secret key and the hot path believes it no longer than the hour", async () => {
      const w = await r.workspace();
      const poll = () => w.call("sk_admin", `GET /v1/policy/delta?project_id=${w.project_id}&since=1`);
      expect((await poll()).status).toBe(304);
      const now = r.clock.now();
      expect(await labels(w.keys.sk_admin)).toEqual(["true_positive"]);
      const shown = (await w.call("sk_owner", `GET /v1/secret_keys/${w.keyIds.sk_admin}`)).body;
      expect(shown).toMatchObject({ quarantined_at: iso(now), expires_at: iso(now + HOUR_MS) });
      expect(await w.actions()).toEqual(["secret_key.quarantined"]);
      r.clock.advance(HOUR_MS - 1_000);
      expect((await poll()).status).toBe(304); // believed again from memory, with the new expiry
      r.clock.advance(1_000);
      expectRefusal(await poll(), 401, "invalid_key");
    });

    it("never moves an earlier expiry, and never an old revocation", async () => {
      const w = await r.workspace();
      const soon = iso(r.clock.now() + 60_000);
      const [ending, revoked] = [await w.mint({ expires_at: soon }), await w.mint()];
      await w.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, { reason: "lost" });
      const before = (await w.call("sk_owner", `GET /v1/keys/${revoked.id}`)).body;
      expect(await labels(ending.key, revoked.key)).toEqual(["true_positive", "true_positive"]);
      expect((await w.call("sk_owner", `GET /v1/keys/${ending.id}`)).body.expires_at).toBe(soon);
      expect((await w.call("sk_owner", `GET /v1/keys/${revoked.id}`)).body).toEqual(before);
      const later = { expires_at: iso(r.clock.now() + 2 * HOUR_MS) };
      expectRefusal(await w.call("sk_owner", `PATCH /v1/keys/${ending.id}`, later), 409, "conflict");
    });

    it("ends a session and the links of a mailbox, and names the bootstrap token", async () => {
      const p = await person(r);
      const since = (await auditRows(r)).length;
      await r.call(null, "POST /v1/auth/password_resets", { email: p.email });
      const token = (await receivedMail(r, p.email)).at(-1)?.token ?? "";
      expect(await labels(p.session, token, r.app.bootstrap.token ?? "")).toEqual(Array(3).fill("true_positive"));
      expectRefusal(await r.call(p.session, "GET /v1/auth/me"), 401, "invalid_session");
      const consume = { token, password: "another long passphrase" };
      expectRefusal(await r.call(null, "POST /v1/auth/password_resets/consume", consume), 400, "invalid_token");
      const revoked = (await auditRows(r)).slice(since).filter(({ action }) => action === "session.revoked");
      expect(revoked).toMatchObject([{ actor_type: "scanner", target_id: p.session_id }]);
      expect(await labels(p.session)).toEqual(["true_positive"]);
      expect((await auditRows(r)).filter(({ target_id }) => target_id === p.session_id)).toHaveLength(2);
    });

    it("answers in order, and calls false what is not stored", async () => {
      const w = await r.workspace();
      const key = await w.mint();
      const unknown = formatCredential("api_key", "live", new Uint8Array(24).fill(5));
      const broken = `${key.key.slice(0, -1)}${key.key.endsWith("0") ? "1" : "0"}`;
      expect(await labels(unknown, key.key, broken, "", "AKIAIOSFODNN7EXAMPLE")).toEqual([
        "false_positive",
        "true_positive",
        "false_positive",
        "false_positive",
        "false_positive",
      ]);
      expect((await report(r, [])).body).toEqual([]);
    });

    it("keeps the key itself out of the reason, the letter and the log", async () => {
      const w = await r.workspace();
      const billing_email = freshEmail("billing");
      await w.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const key = await w.mint();
      const url = `https://example.com/search?q=${key.key}\n${"x".repeat(600)}`;
      expect((await report(r, [{ token: key.key, url, source: "\u0000content" }])).status).toBe(200);
      const { quarantine_reason } = (await w.call("sk_owner", `GET /v1/keys/${key.id}`)).body;
      expect(quarantine_reason).toMatch(
        /^secret_scanning: content https:\/\/example\.com\/search\?q=kr_live_\S{6}… x+$/,
      );
      expect(quarantine_reason.length).toBe(500);
      const said = [quarantine_reason, ...(await receivedMail(r, billing_email)).map(({ text }) => text), ...r.logs];
      expect(said.filter((text) => text.includes(key.key))).toEqual([]);
    });

    it("takes fields it does not know, and refuses what it cannot label", async () => {
      const send = (raw: string) => r.call(null, ROUTE, undefined, { raw, headers: headersFor(raw) });
      const odd = await send('[{"token":"x","type":7,"url":null,"source":{},"location":{"line":1}}]');
      expect(odd.body).toEqual([{ token_hash: sha("x"), token_type: "", label: "false_positive" }]);
      expectRefusal(await send('{"token":"x"}'), 400, "invalid_request", "");
      expectRefusal(await send('[{"token":"x"},{"url":"y"}]'), 400, "invalid_request", "[1].token");
      expectRefusal(await send("[null]"), 400, "invalid_request", "[0].token");
      expectRefusal(await send("not json"), 400, "invalid_request");
      const many = JSON.stringify(Array.from({ length: 1_001 }, () => ({ token: "x" })));
      expectRefusal(await send(many), 413, "payload_too_large");
      expectRefusal(await send(`["${"x".repeat(1024 * 1024)}"]`), 413, "payload_too_large");
    });

    it("believes nothing without a good signature, and looks at nothing before", async () => {
      const w = await r.workspace();
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
        const reply = await r.call(null, ROUTE, undefined, { raw: body, headers });
        expect([why, reply.status, reply.body.error.code]).toEqual([why, 401, "invalid_signature"]);
      }
      expect((await w.call("sk_owner", `GET /v1/keys/${key.id}`)).body.quarantined_at).toBeNull();
    });

    it("answers 5xx when one token fails, keeps what the others did, and takes the report again", async () => {
      const w = await r.workspace();
      const [one, bad, other] = [await w.mint(), await w.mint(), await w.mint()];
      const { read } = r.app.services.store;
      const first = read.first.bind(read);
      const broken = vi.spyOn(read, "first").mockImplementation((query) => {
        if (query.values.includes(sha(bad.key))) return Promise.reject(new Error("the disk hiccupped"));
        return first(query);
      });
      const findings = [one, bad, other].map(({ key }) => ({ token: key, ...WHERE }));
      expect((await report(r, findings)).status).toBe(500);
      broken.mockRestore();
      const at = async () =>
        Promise.all(
          [one, bad, other].map(
            async ({ id }) => (await w.call("sk_owner", `GET /v1/keys/${id}`)).body.quarantined_at !== null,
          ),
        );
      expect(await at()).toEqual([true, false, true]);
      expect(await labels(one.key, bad.key, other.key)).toEqual(Array(3).fill("true_positive"));
      expect(await at()).toEqual([true, true, true]);
      expect((await w.actions()).filter((action) => action === "api_key.quarantined")).toHaveLength(3);
    });

    it("reaches a library node: the key works for its hour there, and is refused after it", async () => {
      const w = await r.workspace();
      const [leaked, other] = [await w.mint(), await w.mint()];
      const node = createKeyrackWith(
        { url: r.url, secretKey: w.keys.sk_owner, projectId: w.project_id },
        { ...patientPorts(), now: () => r.clock.now() },
      );
      try {
        await node.ready();
        const { version } = (await w.call("sk_owner", `GET /v1/policy/snapshot?project_id=${w.project_id}`)).body;
        await labels(leaked.key);
        const acked = async () =>
          (await r.sql("select version from policy_nodes where project_id = $1", [w.project_id]))[0]?.version;
        await expect.poll(acked).toBeGreaterThan(version);
        r.clock.advance(HOUR_MS - 1);
        expect(node.verify(leaked.key)).toMatchObject({ ok: true });
        r.clock.advance(1);
        expect(node.verify(leaked.key)).toMatchObject({ ok: false, status: 401, code: "expired_key" });
        expect(node.verify(other.key)).toMatchObject({ ok: true });
      } finally {
        await node.close();
      }
    });
  });
}

function pick(headers: Record<string, string>, at: number): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).slice(at, at + 1));
}

describe("the scanner webhook", () => {
  it("is not there unless keys are configured", async () => {
    await using r = await testInstance("sqlite");
    const reply = await report(r, [{ token: "x" }]);
    expectRefusal(reply, 404, "not_found");
  });

  it("takes sixty reports a minute from one network before it looks at any signature", async () => {
    using keys = scannerKeysFile();
    await using r = await testInstance("sqlite", { flags: { scanner_keys_file: keys.file, throttle: "on" } });
    const statuses = await Promise.all(Array.from({ length: 61 }, async () => (await report(r, [])).status));
    expect(statuses.filter((status) => status === 429)).toHaveLength(1);
  });
});
