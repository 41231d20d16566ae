// Nothing a person could be impersonated with is in the database files, their WAL or the log. The mail folder is the
// mailbox and alone may hold a link.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { account, freshEmail, lastMail, logIn, team } from "../../../harness/instances/people.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";
import { everythingStored } from "../../../harness/instances/stored-text.ts";

const PLANTED = "planted-password-that-must-not-stay";

for (const backend of runBackends) {
  describe(`secrets of people on ${backend}`, () => {
    it("are stored as hashes only", async () => {
      await using instance = await testInstance(backend, { flags: { mail_url: "smtp://127.0.0.1:1" } });
      const secrets: Record<string, string> = { password: PLANTED };
      // Nothing can be delivered, so every message stays sealed in the outbox: its token is read from there.
      const tokens = async (): Promise<string[]> => {
        const { listMail, showMail } = await import("../../../src/domain/mail/outbox.ts");
        const list = await listMail(instance.app.services, {});
        const bodies = await Promise.all(list.data.map(({ id }) => showMail(instance.app.services, id, true)));
        return bodies.flatMap(({ text = "" }) => /token=(\S+)/.exec(text)?.[1] ?? []);
      };
      const email = freshEmail();
      await account(instance, email, PLANTED, false);
      const p = await logIn(instance, email, PLANTED);
      secrets.session = p.session;
      await instance.call(null, "POST /v1/auth/password_resets", { email });
      await instance.call(null, "POST /v1/auth/sessions", { email, password: `${PLANTED}-wrong` });
      await instance.call(p.session, "POST /v1/auth/me/password", {
        current_password: PLANTED,
        password: `${PLANTED}-new`,
      });
      const made = await instance.call(p.session, "POST /v1/workspaces", { name: "W", slug: `w-${process.pid}` });
      secrets.key = made.body.secret_key.key;
      const invite = await instance.call(p.session, "POST /v1/invites", { email: freshEmail(), role: "member" });
      secrets.invite = invite.body.token.split(".")[1];
      await instance.app.idle();
      const mailed = await tokens();
      expect(mailed).toHaveLength(3);
      for (const [n, token] of mailed.entries()) secrets[`mailed ${n}`] = token.split(".").at(-1) ?? token;
      const stored = await everythingStored(instance);
      const logged = instance.logs.join("");
      expect([stored.includes(p.id), logged.includes(p.id)]).toEqual([true, true]); // the search works: it finds this
      for (const [name, secret] of Object.entries(secrets)) {
        expect(stored.includes(secret), `${name} in the database`).toBe(false);
        expect(logged.includes(secret), `${name} in the log`).toBe(false);
      }
    });

    it("logs no token with the log transport", async () => {
      await using instance = await testInstance(backend, { flags: { mail_url: "log:" } });
      const email = freshEmail();
      await account(instance, email, PLANTED, false);
      await instance.app.idle();
      const lines = instance.logs.filter((line) => line.includes('"event":"mail"'));
      expect(lines).toHaveLength(1);
      expect(lines[0]).toContain(email);
      expect(lines[0]).toMatch(/token=krev_[A-Za-z0-9_-]{6}…/);
    });

    it("repeats no password or token in any response", async () => {
      await using instance = await testInstance(backend);
      const t = await team(instance);
      const { token } = await lastMail(instance, await account(instance));
      const calls = [
        await instance.call(null, "POST /v1/auth/users", { email: "x", password: PLANTED }),
        await instance.call(null, "POST /v1/auth/users", { email: freshEmail(), password: PLANTED, [PLANTED]: 1 }),
        await instance.call(null, "POST /v1/auth/email_verifications/consume", { token }),
        await instance.call(t.owner.session, "GET /v1/auth/sessions"),
        await instance.call(t.owner.session, "GET /v1/invites"),
      ];
      // A field's name is returned: that is what details are for.
      const texts = calls.map(({ text }) => text.replace(`"path":"${PLANTED}"`, ""));
      for (const text of texts)
        for (const secret of [PLANTED, token, t.owner.session]) expect(text).not.toContain(secret);
    });
  });
}
