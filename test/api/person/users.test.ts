// Accounts: sign-up, name and password.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  account,
  auditRows,
  deploymentActions,
  freshEmail,
  lastMail,
  receivedMail,
  logIn,
  PASSWORD,
  person,
  team,
} from "../../../harness/instances/people.ts";
import { expectRefusal, headerNames, sharedInstance } from "../../../harness/instances/test-instance.ts";

const NEW = "another fine password";

for (const backend of runBackends) {
  describe(`accounts on ${backend}`, () => {
    const instance = sharedInstance(backend);
    const chainLength = async (): Promise<number> => (await auditRows(instance)).length;

    it("responds 202 to a sign-up and mails one verification link", async () => {
      const email = freshEmail();
      const since = await chainLength();
      const reply = await instance.call(null, "POST /v1/auth/users", { email, password: PASSWORD, name: "Ada" });
      expect(reply.status).toBe(202);
      expect(reply.body).toEqual({ object: "signup", email, accepted: true });
      const mail = await receivedMail(instance, email);
      expect(mail).toHaveLength(1);
      expect(mail[0]?.link).toMatch(new RegExp(`^${instance.url}/#/verify\\?token=krev_[A-Za-z0-9_-]{32}[0-9a-f]{8}$`));
      expect(mail[0]?.text.match(/https?:/g)).toHaveLength(1);
      expect(await deploymentActions(instance, since)).toEqual(["user.created"]);
      const [row] = (await auditRows(instance)).slice(-1);
      expect(row).toMatchObject({ actor_type: "user", payload: {} });
      expect(row?.actor_id).toBe(row?.target_id);
    });

    it("responds the same for a verified address, changes nothing, and mails one notice without a token", async () => {
      const email = await account(instance);
      const [since, mailed] = [await chainLength(), (await receivedMail(instance, email)).length];
      const want = { email: email.toUpperCase(), password: NEW };
      const reply = await instance.call(null, "POST /v1/auth/users", want);
      const fresh = await instance.call(null, "POST /v1/auth/users", { email: freshEmail(), password: NEW });
      expect(reply.status).toBe(202);
      expect(reply.body).toEqual({ object: "signup", email: want.email, accepted: true });
      expect(headerNames(reply)).toEqual(headerNames(fresh));
      expect(await deploymentActions(instance, since)).toEqual(["user.created"]); // the other address's
      const mail = await receivedMail(instance, email);
      expect(mail).toHaveLength(mailed + 1);
      const link = `${instance.url}/#/forgot`; // the page for people who have an account
      expect(mail.at(-1)).toMatchObject({ subject: "You already have an account", token: null, link });
      await logIn(instance, email, PASSWORD);
      expectRefusal(
        await instance.call(null, "POST /v1/auth/sessions", { email, password: NEW }),
        401,
        "invalid_credentials",
      );
    });

    it("gives no access to a stranger who signs up another person's address first", async () => {
      const email = freshEmail("victim");
      await account(instance, email, "the stranger's password", false);
      const stranger = await logIn(instance, email, "the stranger's password");
      await account(instance, email, "the person's own password", false);
      const mail = await receivedMail(instance, email);
      expect(mail).toHaveLength(2);
      expect(mail[1]?.link).toMatch(/\/#\/reset\?token=krpr_/);
      // Nothing has changed yet: the stranger's sign-up still exists, unverified.
      expectRefusal(
        await instance.call(null, "POST /v1/auth/sessions", { email, password: "the person's own password" }),
        401,
        "invalid_credentials",
      );
      const since = await chainLength();
      const consumed = await instance.call(null, "POST /v1/auth/password_resets/consume", {
        token: mail[1]?.token,
        password: "the person's own password",
      });
      expect(consumed.body).toEqual({ object: "password_reset", consumed: true });
      expect(await deploymentActions(instance, since)).toEqual(["user.password_reset", "user.email_verified"]);
      expectRefusal(await instance.call(stranger.session, "GET /v1/auth/me"), 401, "invalid_session");
      const again = { email, password: "the stranger's password" };
      expectRefusal(await instance.call(null, "POST /v1/auth/sessions", again), 401, "invalid_credentials");
      const mine = await logIn(instance, email, "the person's own password");
      const me = await instance.call(mine.session, "GET /v1/auth/me");
      expect(me.body.user).toEqual({ id: mine.id, email, email_verified: true });
    });

    it("makes one account for two concurrent sign-ups of an address and queues one message each", async () => {
      const email = freshEmail();
      const both = await Promise.all(
        [PASSWORD, NEW].map((password) => instance.call(null, "POST /v1/auth/users", { email, password })),
      );
      expect(both.map(({ status }) => status)).toEqual([202, 202]);
      expect(await instance.sql("select id from users where email_key = $1", [email])).toHaveLength(1);
      expect(await receivedMail(instance, email)).toHaveLength(2);
    });

    for (const [why, change, path] of [
      ["no address", { email: undefined }, "email"],
      ["a broken address", { email: "ada@" }, "email"],
      ["a short password", { password: "tooshort123" }, "password"],
      ["a long password", { password: "x".repeat(257) }, "password"],
      ["a password of too many bytes", { password: "😀é".repeat(128) + "x" }, "password"],
      ["a common password", { password: "123QWEasdzxc" }, "password"],
      ["a repeated one", { password: "abcabcabcabcabc" }, "password"],
      ["a sequence", { password: "abcdefghijklm" }, "password"],
      ["little more than the product's name", { password: "Keyrack12345" }, "password"],
      ["an unknown field", { admin: true }, "admin"],
      ["a name with nothing in it", { name: "" }, "name"],
    ] as const) {
      it(`rejects ${why} at sign-up and writes nothing`, async () => {
        const email = freshEmail();
        const reply = await instance.call(null, "POST /v1/auth/users", { email, password: PASSWORD, ...change });
        expectRefusal(reply, 400, "invalid_request", path);
        expect(reply.text).not.toContain("tooshort123");
        expect(await instance.sql("select id from users where email_key = $1", [email])).toEqual([]);
        expect(await receivedMail(instance, email)).toEqual([]);
      });
    }

    it("rejects a password that is little more than the address, with the reason", async () => {
      const email = `longlocalpart${freshEmail()}`;
      const local = email.split("@")[0] ?? "";
      const reply = await instance.call(null, "POST /v1/auth/users", { email, password: `${local}!1` });
      expectRefusal(reply, 400, "invalid_request", "password");
      expect(reply.body.error.details[0].message).toBe("is little more than a word that belongs to this account");
    });

    it("returns exactly the person, the active workspace and the memberships", async () => {
      const t = await team(instance);
      const reply = await instance.call(t.owner.session, "GET /v1/auth/me");
      expect(reply.body).toEqual({
        object: "me",
        user: { id: t.owner.id, email: t.owner.email, email_verified: true },
        active_workspace_id: t.id,
        memberships: [{ workspace_id: t.id, role: "owner", name: "Team", slug: t.slug }],
      });
    });

    it("sets and clears the name; the audit row holds only that it changed", async () => {
      const p = await person(instance);
      const since = await chainLength();
      const set = await instance.call(p.session, "PATCH /v1/auth/me", { name: "Ada Lovelace" });
      expect(set.status).toBe(200);
      expect(Object.keys(set.body).toSorted()).toEqual(
        ["object", "id", "email", "email_verified", "name", "created_at", "last_login_at"].toSorted(),
      );
      expect(set.body).toMatchObject({ object: "user", name: "Ada Lovelace", email: p.email });
      await instance.call(p.session, "PATCH /v1/auth/me", { name: "Ada Lovelace" });
      const cleared = await instance.call(p.session, "PATCH /v1/auth/me", { name: null });
      expect(cleared.body.name).toBeNull();
      expectRefusal(await instance.call(p.session, "PATCH /v1/auth/me", {}), 400, "invalid_request", "name");
      const rows = (await auditRows(instance)).slice(since);
      expect(rows.map(({ action }) => action)).toEqual(["user.updated", "user.updated"]);
      expect(rows[0]).toMatchObject({ actor_type: "user", actor_id: p.id, payload: { name: { changed: true } } });
    });

    it("keeps this session when the password changes, ends the others, and mails a notice", async () => {
      const p = await person(instance);
      const other = await logIn(instance, p.email);
      const since = await chainLength();
      const reply = await instance.call(p.session, "POST /v1/auth/me/password", {
        current_password: PASSWORD,
        password: NEW,
      });
      expect(reply.body).toEqual({ object: "password", changed: true });
      expect((await instance.call(p.session, "GET /v1/auth/me")).status).toBe(200);
      expectRefusal(await instance.call(other.session, "GET /v1/auth/me"), 401, "invalid_session");
      const rows = (await auditRows(instance)).slice(since);
      expect(rows.map(({ action }) => action)).toEqual(["user.password_changed"]);
      expect(rows[0]?.payload).toEqual({ revoked_sessions: 1 });
      const notice = { subject: "Your password was changed", token: null, link: `${instance.url}/#/forgot` };
      expect(await lastMail(instance, p.email)).toMatchObject(notice);
      expectRefusal(
        await instance.call(null, "POST /v1/auth/sessions", { email: p.email, password: PASSWORD }),
        401,
        "invalid_credentials",
      );
      await logIn(instance, p.email, NEW);
    });

    it("mails no notice of a new password to an address that is not verified", async () => {
      const p = await person(instance, { verified: false });
      const mailed = (await receivedMail(instance, p.email)).length;
      const change = { current_password: PASSWORD, password: NEW };
      expect((await instance.call(p.session, "POST /v1/auth/me/password", change)).status).toBe(200);
      expect(await receivedMail(instance, p.email)).toHaveLength(mailed);
    });

    it("responds 403 to a wrong current password and 400 to a weak new one, and changes nothing", async () => {
      const p = await person(instance);
      const [since, mailed] = [await chainLength(), (await receivedMail(instance, p.email)).length];
      const wrong = { current_password: "not my password", password: NEW };
      expectRefusal(await instance.call(p.session, "POST /v1/auth/me/password", wrong), 403, "invalid_credentials");
      // A weak one is reported first, whether or not the current one is right.
      for (const current_password of [PASSWORD, "not my password"]) {
        const weak = { current_password, password: "qwertyuiop[]" };
        expectRefusal(
          await instance.call(p.session, "POST /v1/auth/me/password", weak),
          400,
          "invalid_request",
          "password",
        );
      }
      expect(await deploymentActions(instance, since)).toEqual([]);
      expect(await receivedMail(instance, p.email)).toHaveLength(mailed);
      await logIn(instance, p.email);
    });

    it("rejects the workspace's name as a password, wherever one is chosen", async () => {
      const t = await team(instance);
      const password = `${t.slug}1!`;
      const { email } = t.owner;
      await instance.call(null, "POST /v1/auth/password_resets", { email });
      const { token } = await lastMail(instance, email);
      const invited = freshEmail();
      const { body } = await instance.call(t.owner.session, "POST /v1/invites", { email: invited, role: "member" });
      const logInWith = (address: string) =>
        instance.call(null, "POST /v1/auth/sessions", { email: address, password });
      for (const [bearer, route, want] of [
        [t.owner.session, "POST /v1/auth/me/password", { current_password: PASSWORD, password }],
        [null, "POST /v1/auth/password_resets/consume", { token, password }],
        [null, "POST /v1/auth/users", { email: invited, password, invite_token: body.token }],
      ] as const)
        expectRefusal(await instance.call(bearer, route, want), 400, "invalid_request", "password");
      expect([(await logInWith(email)).status, (await logInWith(invited)).status]).toEqual([401, 401]);
    });
  });
}
