// Secret scanner reports that fail half-way, stop keys from rotating themselves, reach SDK nodes, or come too often.
import { createHash } from "node:crypto";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { parseReports } from "../../../src/domain/leaks/leaks.ts";
import { formatInviteToken } from "../../../src/kernel/credentials.ts";
import { createKeyrackWith } from "../../../src/sdk/keyrack.ts";
import { patientPorts } from "../../../harness/sdk/ports.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { auditRows, freshEmail, person, receivedMail, team } from "../../../harness/instances/people.ts";
import { expectRefusal, testInstance, type TestInstance } from "../../../harness/instances/test-instance.ts";
import { report, scannerFixture, scannerKeysFile, WHERE } from "../../../harness/instances/scanner.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

const sha = (text: string): string => createHash("sha256").update(text).digest("hex");

for (const backend of runBackends) {
  describe(`scanner reports on ${backend}`, () => {
    const { now, labels } = scannerFixture(backend);
    let instance: TestInstance;
    beforeEach(() => {
      instance = now();
    });

    it("mails nothing where no owner is verified: the owner's and the billing address may be a stranger's", async () => {
      const owner = await person(instance, { verified: false });
      const t = await team(instance, owner);
      const billing_email = freshEmail("billing");
      await instance.call(t.key, "PATCH /v1/workspace", { billing_email });
      const mailed = (await receivedMail(instance, owner.email)).length;
      expect(await labels(t.key)).toEqual(["true_positive"]);
      expect((await auditRows(instance, t.id)).at(-1)?.action).toBe("secret_key.quarantined");
      expect(await receivedMail(instance, owner.email)).toHaveLength(mailed);
      expect(await receivedMail(instance, billing_email)).toEqual([]);
    });

    it("responds 5xx when one token fails, keeps the effects of the others, and accepts the report again", async () => {
      const workspace = await instance.workspace();
      const [one, bad, other] = [await workspace.mint(), await workspace.mint(), await workspace.mint()];
      const { read } = instance.app.services.store;
      const first = read.first.bind(read);
      const broken = vi.spyOn(read, "first").mockImplementation((query) => {
        if (query.values.includes(sha(bad.key))) return Promise.reject(new Error("the disk hiccupped"));
        return first(query);
      });
      const findings = [one, bad, other].map(({ key }) => ({ token: key, ...WHERE }));
      expect((await report(instance, findings)).status).toBe(500);
      broken.mockRestore();
      const at = async () =>
        Promise.all(
          [one, bad, other].map(
            async ({ id }) => (await workspace.call("sk_owner", `GET /v1/keys/${id}`)).body.quarantined_at !== null,
          ),
        );
      expect(await at()).toEqual([true, false, true]);
      expect(await labels(one.key, bad.key, other.key)).toEqual(Array(3).fill("true_positive"));
      expect(await at()).toEqual([true, true, true]);
      expect((await workspace.actions()).filter((action) => action === "api_key.quarantined")).toHaveLength(3);
    });

    it("revokes an invitation of which either token leaked, once, and leaves others", async () => {
      const t = await team(instance);
      const [returned, mailed, kept] = [freshEmail("one"), freshEmail("two"), freshEmail("three")];
      const invite = async (email: string) =>
        (await instance.call(t.key, "POST /v1/invites", { email, role: "owner" })).body;
      const [one, two, three] = [await invite(returned), await invite(mailed), await invite(kept)];
      const token = (await receivedMail(instance, mailed)).at(-1)?.token ?? "";
      const since = (await auditRows(instance, t.id)).length;
      expect(await labels(one.token, token, one.token)).toEqual(Array(3).fill("true_positive"));
      const unknown = formatInviteToken(t.id, new Uint8Array(24).fill(5));
      expect(await labels(unknown, three.token.slice(0, -1))).toEqual(Array(2).fill("false_positive"));
      const { data } = (await instance.call(t.key, "GET /v1/invites")).body as {
        data: { id: string; revoked_at: unknown }[];
      };
      const open = data.filter(({ revoked_at }) => revoked_at === null).map(({ id }) => id);
      expect(open.filter((id) => [one.id, two.id, three.id].includes(id))).toEqual([three.id]);
      const p = await person(instance);
      for (const leaked of [one.token, token])
        expectRefusal(
          await instance.call(p.session, "POST /v1/auth/invites/accept", { token: leaked }),
          400,
          "invalid_token",
        );
      expect((await auditRows(instance, t.id)).slice(since)).toMatchObject([
        { action: "workspace_invite.revoked", actor_type: "scanner", payload: { role: "owner" } },
        { action: "workspace_invite.revoked", actor_type: "scanner", payload: { role: "owner" } },
      ]);
    });

    it("leaves a leaked key unable to rotate itself, and others able to rotate it", async () => {
      const workspace = await instance.workspace();
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, {
        key_policy: { holder_rotate: true },
      });
      const key = await workspace.mint();
      const restricted = (
        await workspace.call("sk_owner", "POST /v1/secret_keys", { env: "live", permissions: ["verify"] })
      ).body;
      const own = [
        [key.key, "POST /v1/self/rotate"],
        [restricted.key, `POST /v1/secret_keys/${restricted.id}/rotate`],
      ] as const;
      expect((await instance.call(key.key, "GET /v1/self")).body.rotatable).toBe(true);
      await labels(key.key, restricted.key, workspace.keys.sk_admin);
      const since = (await workspace.actions()).length;
      for (const [bearer, route] of own) {
        const refused = await instance.call(bearer, route, { overlap_hours: 0 });
        expectRefusal(refused, 409, "conflict");
        expect(refused.body.error.message).toBe("A quarantined key cannot rotate itself.");
      }
      expect((await instance.call(key.key, "GET /v1/self")).body).toMatchObject({ replaced: false, rotatable: false });
      expect((await workspace.actions()).slice(since)).toEqual([]);
      const unrestricted = `POST /v1/secret_keys/${workspace.keyIds.sk_admin}/rotate`; // it could create another key anyway
      for (const [who, route] of [
        ["sk_owner", `POST /v1/keys/${key.id}/rotate`],
        ["sk_owner", own[1][1]],
        ["sk_admin", unrestricted],
      ] as const) {
        const { status, body } = await workspace.call(who, route, { overlap_hours: 0 });
        expect([status, body.quarantined_at, body.expires_at], route).toEqual([200, null, null]);
      }
      const rotations = ["api_key.rotated", "secret_key.rotated", "secret_key.rotated"];
      expect((await workspace.actions()).slice(since)).toEqual(rotations);
    });

    it("reaches an SDK node: the key works there for its hour, and is rejected after it", async () => {
      const workspace = await instance.workspace();
      const [leaked, other] = [await workspace.mint(), await workspace.mint()];
      const node = createKeyrackWith(
        { url: instance.url, secretKey: workspace.keys.sk_owner, projectId: workspace.project_id },
        { ...patientPorts(), now: () => instance.clock.now() },
      );
      try {
        await node.ready();
        const { version } = (
          await workspace.call("sk_owner", `GET /v1/policy/snapshot?project_id=${workspace.project_id}`)
        ).body;
        await labels(leaked.key);
        const acked = async () =>
          (await instance.sql("select version from policy_nodes where project_id = $1", [workspace.project_id]))[0]
            ?.version;
        await expect.poll(acked).toBeGreaterThan(version);
        instance.clock.advance(HOUR_MS - 1);
        expect(node.verify(leaked.key)).toMatchObject({ ok: true });
        instance.clock.advance(1);
        expect(node.verify(leaked.key)).toMatchObject({ ok: false, status: 401, code: "expired_key" });
        expect(node.verify(other.key)).toMatchObject({ ok: true });
      } finally {
        await node.close();
      }
    });
  });
}

describe("the scanner webhook", () => {
  it("masks an invitation in a location", () => {
    const id = "01a1ebfe-0000-7000-8000-000000000001";
    const url = `https://example.com/${formatInviteToken(id, new Uint8Array(24).fill(7))}/`;
    const [read] = parseReports(Buffer.from(JSON.stringify([{ token: "x", url }])));
    expect(read?.location).toMatch(/^https:\/\/example\.com\/[0-9a-f-]{36}\.\w{6}….$/);
  });

  it("is 404 unless scanner keys are configured", async () => {
    await using instance = await testInstance("sqlite");
    const reply = await report(instance, [{ token: "x" }]);
    expectRefusal(reply, 404, "not_found");
  });

  it("accepts sixty reports a minute per network, counted before the signature is checked", async () => {
    using keys = scannerKeysFile();
    await using instance = await testInstance("sqlite", { flags: { scanner_keys_file: keys.file, throttle: "on" } });
    const statuses = await Promise.all(Array.from({ length: 61 }, async () => (await report(instance, [])).status));
    expect(statuses.filter((status) => status === 429)).toHaveLength(1);
  });
});
