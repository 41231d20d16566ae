// Verification and reset links: each works once, for a limited time, for its purpose.
import { describe, expect, it } from "vitest";
import { formatCredential } from "../../../src/kernel/credentials.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  account,
  auditRows,
  freshEmail,
  lastMail,
  receivedMail,
  logIn,
  PASSWORD,
  person,
} from "../../../harness/instances/people.ts";
import { expectRefusal, headerNames, sharedInstance, type Reply } from "../../../harness/instances/test-instance.ts";

const NEW = "a password that others do not have";
const VERIFY = "POST /v1/auth/email_verifications/consume";
const RESET = "POST /v1/auth/password_resets/consume";

for (const backend of runBackends) {
  describe(`one-time links on ${backend}`, () => {
    const instance = sharedInstance(backend);
    const chainLength = async (): Promise<number> => (await auditRows(instance)).length;
    const askReset = (email: string): Promise<Reply> => instance.call(null, "POST /v1/auth/password_resets", { email });

    it("verifies an address once", async () => {
      const p = await person(instance, { verified: false });
      const { token } = await lastMail(instance, p.email);
      const since = await chainLength();
      const reply = await instance.call(null, VERIFY, { token });
      expect(reply.status).toBe(200);
      expect(reply.body).toEqual({ object: "email_verification", verified: true });
      expect((await instance.call(p.session, "GET /v1/auth/me")).body.user.email_verified).toBe(true);
      const again = await instance.call(null, VERIFY, { token });
      expectRefusal(again, 400, "invalid_token");
      expect(again.body.error.message).toBe("The token is invalid or has expired.");
      const rows = (await auditRows(instance)).slice(since);
      expect(rows).toMatchObject([
        { action: "user.email_verified", actor_type: "user", actor_id: p.id, target_id: p.id, payload: {} },
      ]);
      expect(instance.logs.join("")).toContain('"event":"token reuse"');
    });

    it("keeps a verification link valid for a day, until a newer one is sent", async () => {
      const p = await person(instance, { verified: false });
      const { token: first } = await lastMail(instance, p.email);
      const asked = await instance.call(p.session, "POST /v1/auth/email_verifications", {});
      expect(asked.status).toBe(202);
      expect(asked.body).toEqual({ object: "email_verification", accepted: true });
      const { token: second } = await lastMail(instance, p.email);
      expect(second).not.toBe(first);
      expectRefusal(await instance.call(null, VERIFY, { token: first }), 400, "invalid_token");
      instance.clock.advance(24 * 3_600_000);
      expectRefusal(await instance.call(null, VERIFY, { token: second }), 400, "invalid_token");
    });

    it("responds 202 without mail to a verified person, also without a body", async () => {
      const p = await person(instance);
      const mailed = (await receivedMail(instance, p.email)).length;
      const reply = await instance.call(p.session, "POST /v1/auth/email_verifications");
      expect(reply.status).toBe(202);
      expect(await receivedMail(instance, p.email)).toHaveLength(mailed);
    });

    it("responds the same to a reset request for every address; only an account gets mail", async () => {
      const email = await account(instance);
      const stranger = freshEmail();
      const before = (await receivedMail(instance)).length;
      const [known, unknown] = [await askReset(email), await askReset(stranger)];
      for (const reply of [known, unknown]) {
        expect(reply.status).toBe(202);
        expect(reply.body).toEqual({ object: "password_reset", accepted: true });
      }
      expect(headerNames(known)).toEqual(headerNames(unknown));
      expect(await receivedMail(instance)).toHaveLength(before + 1);
      expect((await lastMail(instance, email)).link).toMatch(new RegExp(`^${instance.url}/#/reset\\?token=krpr_`));
      expect(await instance.sql("select id from outbox where recipient = $1", [stranger])).toEqual([]);
    });

    it("sets the password, ends every session, starts none, and mails a notice", async () => {
      const p = await person(instance);
      await askReset(p.email);
      const { token } = await lastMail(instance, p.email);
      const since = await chainLength();
      const reply = await instance.call(null, RESET, { token, password: NEW });
      expect(reply.status).toBe(200);
      expect(reply.body).toEqual({ object: "password_reset", consumed: true });
      expectRefusal(await instance.call(p.session, "GET /v1/auth/me"), 401, "invalid_session");
      const notice = { subject: "Your password was reset", token: null, link: `${instance.url}/#/forgot` };
      expect(await lastMail(instance, p.email)).toMatchObject(notice);
      const rows = (await auditRows(instance)).slice(since);
      expect(rows).toMatchObject([
        { action: "user.password_reset", actor_type: "user", actor_id: p.id, payload: { revoked_sessions: 1 } },
      ]);
      expectRefusal(await instance.call(null, RESET, { token, password: NEW }), 400, "invalid_token");
      await logIn(instance, p.email, NEW);
    });

    it("keeps a reset link valid for half an hour, until a newer one is sent", async () => {
      const email = await account(instance);
      await askReset(email);
      const { token: first } = await lastMail(instance, email);
      await askReset(email);
      const { token: second } = await lastMail(instance, email);
      expectRefusal(await instance.call(null, RESET, { token: first, password: NEW }), 400, "invalid_token");
      instance.clock.advance(30 * 60_000);
      expectRefusal(await instance.call(null, RESET, { token: second, password: NEW }), 400, "invalid_token");
      await logIn(instance, email);
    });

    it("does not consume the link for a weak password", async () => {
      const email = await account(instance);
      await askReset(email);
      const { token } = await lastMail(instance, email);
      expectRefusal(
        await instance.call(null, RESET, { token, password: "password1234" }),
        400,
        "invalid_request",
        "password",
      );
      expect((await instance.call(null, RESET, { token, password: NEW })).status).toBe(200);
    });

    it("cancels a pending reset when the password is changed", async () => {
      const p = await person(instance);
      await askReset(p.email);
      const { token } = await lastMail(instance, p.email);
      await instance.call(p.session, "POST /v1/auth/me/password", { current_password: PASSWORD, password: NEW });
      expectRefusal(await instance.call(null, RESET, { token, password: "mine now, surely" }), 400, "invalid_token");
    });

    it("sets one password when a link is used many times concurrently", async () => {
      const email = await account(instance);
      await askReset(email);
      const { token } = await lastMail(instance, email);
      const passwords = Array.from({ length: 8 }, (_, n) => `password number ${n} of some`);
      const replies = await Promise.all(passwords.map((password) => instance.call(null, RESET, { token, password })));
      const won = replies.findIndex(({ status }) => status === 200);
      expect(replies.filter(({ status }) => status === 400)).toHaveLength(7);
      await logIn(instance, email, passwords[won]);
    });

    it("accepts no token for another purpose, and responds the same to made-up ones", async () => {
      const p = await person(instance, { verified: false });
      const { token: verification } = await lastMail(instance, p.email);
      await askReset(p.email);
      const { token: reset } = await lastMail(instance, p.email);
      const body = new Uint8Array(24).fill(3);
      for (const token of [reset, p.session, formatCredential("email_verification", null, body), "krev_x", "x"]) {
        expectRefusal(await instance.call(null, VERIFY, { token }), 400, "invalid_token");
      }
      for (const token of [verification, p.session, formatCredential("password_reset", null, body), "krpr_", "x"]) {
        expectRefusal(await instance.call(null, RESET, { token, password: NEW }), 400, "invalid_token");
      }
      expectRefusal(await instance.call(null, VERIFY, { token: "" }), 400, "invalid_request", "token");
      expectRefusal(await instance.call(null, VERIFY, { token: "x".repeat(501) }), 400, "invalid_request", "token");
    });
  });
}
