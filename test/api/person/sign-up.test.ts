// Who may sign up, how many workspaces a person may own, and what an unverified account may do.
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  account,
  deploymentActions,
  freshEmail,
  lastMail,
  logIn,
  PASSWORD,
  person,
  receivedMail,
  type Person,
} from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, testInstance } from "../../../harness/instances/test-instance.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`sign-up by invitation on ${backend}`, () => {
    const instance = sharedInstance(backend, { flags: { sign_up: "invite", unverified_login: "refuse" } });
    let key = "";
    beforeAll(async () => {
      key = (await instance.workspace()).keys.sk_owner;
    });
    const signUp = (email: string, invite_token?: string) =>
      instance.call(null, "POST /v1/auth/users", { email, password: PASSWORD, ...(invite_token && { invite_token }) });
    /** The token of the response, and the one that was mailed. */
    async function invite(email: string): Promise<{ id: string; token: string; mailed: string }> {
      const { body } = await instance.call(key, "POST /v1/invites", { email, role: "member" });
      return { id: body.id, token: body.token, mailed: (await lastMail(instance, email)).token ?? "" };
    }

    it("is refused without an invitation, for every address alike, and sends nothing", async () => {
      const email = freshEmail();
      const { mailed } = await invite(email);
      expect((await signUp(email, mailed)).status).toBe(202);
      const before = (await receivedMail(instance)).length;
      const replies = [await signUp(email), await signUp(freshEmail())];
      for (const reply of replies) expectRefusal(reply, 403, "sign_up_closed");
      expect(replies[0]?.text).toBe(replies[1]?.text);
      expect(replies[0]?.body.error.message).toMatch(/^Sign-up is by invitation\. /);
      expect((await receivedMail(instance)).length).toBe(before);
    });

    it("verifies the address at once with the mailed token, and sends no other mail", async () => {
      const email = freshEmail();
      const { mailed } = await invite(email);
      const since = (await deploymentActions(instance)).length;
      expect((await signUp(email, mailed)).status).toBe(202);
      expect(await deploymentActions(instance, since)).toEqual(["user.created", "user.email_verified"]);
      expect((await receivedMail(instance, email)).length).toBe(1);
      const { session } = await logIn(instance, email);
      expect((await instance.call(session, "POST /v1/auth/invites/accept", { token: mailed })).status).toBe(200);
    });

    it("verifies nothing with the token of the response", async () => {
      const email = freshEmail();
      const { token } = await invite(email);
      expect((await signUp(email, token)).status).toBe(202);
      expect((await lastMail(instance, email)).subject).toBe("Verify your email address");
      expectRefusal(
        await instance.call(null, "POST /v1/auth/sessions", { email, password: PASSWORD }),
        401,
        "invalid_credentials",
      );
    });

    it("rejects an invitation of another address, a revoked one and an invented one", async () => {
      const email = freshEmail();
      const { id, mailed } = await invite(email);
      expectRefusal(await signUp(freshEmail(), mailed), 400, "invalid_token");
      await instance.call(key, `POST /v1/invites/${id}/revoke`, {});
      expectRefusal(await signUp(email, mailed), 400, "invalid_token");
      expectRefusal(await signUp(email, `${mailed.slice(0, -8)}00000000`), 400, "invalid_token");
    });

    it("rejects an invitation that is revoked while the password is hashed, for known and unknown addresses", async () => {
      const { passwords } = instance.app.services;
      const hash = passwords.hash.bind(passwords);
      const known = freshEmail();
      const first = await invite(known);
      expect((await signUp(known, first.mailed)).status).toBe(202);
      await instance.call(key, `POST /v1/invites/${first.id}/revoke`, {});
      for (const email of [freshEmail(), known]) {
        const { id, mailed } = await invite(email);
        const hashing = vi.spyOn(passwords, "hash").mockImplementationOnce(async (...of) => {
          expect((await instance.call(key, `POST /v1/invites/${id}/revoke`, {})).status).toBe(200);
          return hash(...of);
        });
        expectRefusal(await signUp(email, mailed), 400, "invalid_token");
        expect(hashing).toHaveBeenCalledOnce();
        hashing.mockRestore();
      }
    });

    it("creates no account with an invitation that is revoked before the account is written", async () => {
      const { store } = instance.app.services;
      const email = freshEmail();
      const { id, mailed } = await invite(email);
      const write = store.write.bind(store);
      let isRevoked = false;
      const writing = vi.spyOn(store, "write").mockImplementation(async (job) => {
        if (job.chains?.length === 2 && !isRevoked) {
          isRevoked = true;
          await instance.call(key, `POST /v1/invites/${id}/revoke`, {});
        }
        return write(job);
      });
      onTestFinished(() => writing.mockRestore());
      expectRefusal(await signUp(email, mailed), 400, "invalid_token");
      expect(isRevoked).toBe(true);
      const logIn = await instance.call(null, "POST /v1/auth/sessions", { email, password: PASSWORD });
      expectRefusal(logIn, 401, "invalid_credentials");
    });
  });

  it(`closed sign-up on ${backend} refuses everyone, with an invitation too`, async () => {
    await using instance = await testInstance(backend, { flags: { sign_up: "closed" } });
    const workspace = await instance.workspace();
    const email = freshEmail();
    const { body } = await workspace.call("sk_owner", "POST /v1/invites", { email, role: "member" });
    for (const more of [{}, { invite_token: body.token as string }]) {
      const refused = await instance.call(null, "POST /v1/auth/users", { email, password: PASSWORD, ...more });
      expectRefusal(refused, 403, "sign_up_closed");
      expect(refused.body.error.message).not.toContain("invitation");
    }
  });

  it(`an unverified account on ${backend} cannot log in where that is refused, and looks like a wrong password`, async () => {
    await using instance = await testInstance(backend, { flags: { unverified_login: "refuse", throttle: "on" } });
    const email = await account(instance, freshEmail(), PASSWORD, false);
    const tryLogin = (address: string, password: string) =>
      instance.call(null, "POST /v1/auth/sessions", { email: address, password });
    instance.clock.advance(2 * MINUTE_MS);
    const right = await tryLogin(email, PASSWORD);
    const wrong = await tryLogin(email, "wrong");
    const unknown = await tryLogin(freshEmail(), PASSWORD);
    expect([right.status, right.text]).toEqual([401, wrong.text]);
    expect(unknown.text).toBe(right.text);
    // Each counted as a failure; only the right password sent another link.
    const [row] = await instance.sql("select max(consecutive) as n from login_failures");
    expect(Number(row?.n)).toBe(2);
    const mails = await receivedMail(instance, email);
    expect(mails.map(({ subject }) => subject)).toEqual(["Verify your email address", "Verify your email address"]);
    const token = (await lastMail(instance, email)).token;
    expect((await instance.call(null, "POST /v1/auth/email_verifications/consume", { token })).status).toBe(200);
    expect((await tryLogin(email, PASSWORD)).status).toBe(201);
  });

  it(`signing up and logging in at once on ${backend} sends one mail, whose link works`, async () => {
    await using instance = await testInstance(backend, { flags: { unverified_login: "refuse", throttle: "on" } });
    const email = await account(instance, freshEmail(), PASSWORD, false);
    const tryLogin = () => instance.call(null, "POST /v1/auth/sessions", { email, password: PASSWORD });
    instance.clock.advance(2 * MINUTE_MS - 1);
    for (let i = 0; i < 6; i++) expectRefusal(await tryLogin(), 401, "invalid_credentials");
    const mails = await receivedMail(instance, email);
    expect(mails.map(({ subject }) => subject)).toEqual(["Verify your email address"]);
    // A later login sends another, however many came before.
    instance.clock.advance(1);
    await tryLogin();
    const [, second] = await receivedMail(instance, email);
    const consume = (token?: string | null) =>
      instance.call(null, "POST /v1/auth/email_verifications/consume", { token });
    expectRefusal(await consume(mails[0]?.token), 400, "invalid_token");
    expect((await consume(second?.token)).status).toBe(200);
  });

  it(`a person on ${backend} owns as many workspaces as the setting says, fewer while unverified`, async () => {
    await using instance = await testInstance(backend, { flags: { workspaces_per_person: "4" } });
    let made = 0;
    const create = (session: string) =>
      instance.call(session, "POST /v1/workspaces", { name: "W", slug: `per-person-${++made}` });
    for (const [verified, limit] of [
      [true, 4],
      [false, 3],
    ] as const) {
      const { session } = await person(instance, { verified });
      for (let n = 0; n < limit; n++) expect((await create(session)).status).toBe(201);
      const refused = await create(session);
      expectRefusal(refused, 409, "conflict");
      expect(refused.body.error.message).toBe("You have reached your limit of workspaces.");
    }
    expect((await create(instance.app.bootstrap.token ?? "")).status).toBe(201);
  });

  it(`a person on ${backend} makes no room for more workspaces by leaving them, and cannot be made an owner of more`, async () => {
    await using instance = await testInstance(backend, { flags: { workspaces_per_person: "2" } });
    const [ada, ben] = [await person(instance), await person(instance)];
    let made = 0;
    const create = async ({ session }: Person) => {
      const reply = await instance.call(session, "POST /v1/workspaces", { name: "W", slug: `handed-on-${++made}` });
      return {
        status: reply.status,
        id: reply.body.workspace?.id as string,
        key: reply.body.secret_key?.key as string,
      };
    };
    const invite = async (key: string, role: string) =>
      (await instance.call(key, "POST /v1/invites", { email: ben.email, role })).body.token as string;
    const accept = (token: string) => instance.call(ben.session, "POST /v1/auth/invites/accept", { token });
    const [first, second] = [await create(ada), await create(ada)];
    for (const { key } of [first, second]) {
      expect((await accept(await invite(key, "owner"))).status).toBe(200);
      expect((await instance.call(key, `DELETE /v1/members/${ada.id}`)).status).toBe(200);
    }
    // Ada created two, and Ben owns two.
    for (const someone of [ada, ben]) expect((await create(someone)).status).toBe(409);
    const other = await instance.workspace();
    const refused = await accept(await invite(other.keys.sk_owner, "owner"));
    expectRefusal(refused, 409, "conflict");
    expect(refused.body.error.message).toBe("You have reached your limit of workspaces.");
    const third = await instance.workspace();
    expect((await accept(await invite(third.keys.sk_owner, "member"))).status).toBe(200);
    const promoted = await third.call("sk_owner", `PATCH /v1/members/${ben.id}`, { role: "owner" });
    expectRefusal(promoted, 409, "conflict");
    expect(promoted.body.error.message).toBe("This person has reached their limit of workspaces.");
    // Coming back to a workspace that one created, or changing another's role, needs no room.
    const again = await instance.call(second.key, "POST /v1/invites", { email: ada.email, role: "owner" });
    const { token } = again.body;
    expect((await instance.call(ada.session, "POST /v1/auth/invites/accept", { token })).status).toBe(200);
    expect((await third.call("sk_owner", `PATCH /v1/members/${ben.id}`, { role: "admin" })).status).toBe(200);
  });

  it(`people on ${backend} own what the bootstrap token created where they may create nothing`, async () => {
    await using instance = await testInstance(backend, { flags: { workspaces_per_person: "0" } });
    const { email, session } = await person(instance);
    expect((await instance.call(session, "POST /v1/workspaces", { name: "W", slug: "none" })).status).toBe(409);
    const workspace = await instance.workspace();
    const { token } = (await workspace.call("sk_owner", "POST /v1/invites", { email, role: "owner" })).body;
    expect((await instance.call(session, "POST /v1/auth/invites/accept", { token })).status).toBe(200);
  });
}
