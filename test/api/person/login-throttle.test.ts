// The throttles of the person plane, on a clock that only the test moves.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  account,
  freshEmail,
  lastMail,
  receivedMail,
  logIn,
  PASSWORD,
  person,
} from "../../../harness/instances/people.ts";
import {
  expectRefusal,
  testInstance,
  type Reply,
  type TestInstance,
} from "../../../harness/instances/test-instance.ts";
import { HOUR_MS, MINUTE_MS } from "../../../src/kernel/durations.ts";

/** The test acts as a trusted proxy, so it can claim any network. */
const at = (network: number): Record<string, string> => ({
  "x-forwarded-for": `10.${network >> 8}.${network & 255}.7`,
});

for (const backend of runBackends) {
  describe(`throttles on ${backend}`, () => {
    /** For what is counted in memory, or decided alike on both. */
    const onOne = backend === "sqlite";
    let instance: TestInstance;
    const open = (): Promise<TestInstance> =>
      testInstance(backend, { flags: { throttle: "on", trust_proxy: "127.0.0.0/8" } });
    beforeAll(async () => {
      instance = await open();
    });
    // The windows of earlier tests have expired. A second before a quarter of an hour: no window may end with that.
    beforeEach(() => instance.clock.set((Math.floor(instance.clock.now() / HOUR_MS) + 3) * HOUR_MS - 1_000));
    afterAll(() => instance[Symbol.asyncDispose]());
    const tryLogin = (email: string, network: number, password = "wrong", on = instance): Promise<Reply> =>
      on.call(null, "POST /v1/auth/sessions", { email, password }, { headers: at(network) });
    const failTimes = async (times: number, email: string, network: (n: number) => number): Promise<void> => {
      for (let n = 0; n < times; n++) expect((await tryLogin(email, network(n))).status).toBe(401);
    };
    /** Each from a network of its own, twenty in a quarter of an hour. */
    const failHundredTimes = async (email: string): Promise<void> => {
      for (let n = 0; n < 100; n += 20) {
        instance.clock.advance(15 * MINUTE_MS);
        const replies = await Promise.all(Array.from({ length: 20 }, (_, i) => tryLogin(email, 100 + n + i)));
        expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([401]));
      }
    };

    it.runIf(onOne)(
      "write 20 lines of a kind for a network in a minute, and limit the links that it may try",
      async () => {
        const email = freshEmail();
        const written = (event: string): number =>
          instance.logs.filter((line) => line.includes(`"event":"${event}"`)).length;
        const before = written("login throttled");
        for (let i = 0; i < 40; i++) await tryLogin(email, 900);
        expect(written("login throttled") - before).toBe(20);
        for (const path of ["email_verifications", "password_resets"]) {
          const body = { token: "krev_unknown", ...(path === "password_resets" && { password: PASSWORD }) };
          const consume = () => instance.call(null, `POST /v1/auth/${path}/consume`, body, { headers: at(900) });
          for (let i = 0; i < 60; i++) expect((await consume()).status).toBe(400);
          expectRefusal(await consume(), 429, "rate_limited");
        }
      },
    );

    it("allows ten failures per address and network, known or unknown alike, then 429 until the window ends", async () => {
      const known = await account(instance);
      const answers: Reply[] = [];
      for (const email of [known, freshEmail()]) {
        await failTimes(10, email, () => (email === known ? 1 : 2));
        const reply = await tryLogin(email, email === known ? 1 : 2);
        expectRefusal(reply, 429, "rate_limited");
        answers.push(reply);
      }
      const [first, second] = answers as [Reply, Reply];
      expect(first.text).toBe(second.text);
      expect([...first.headers.keys()]).toEqual([...second.headers.keys()]);
      for (const name of ["retry-after", "ratelimit", "ratelimit-policy"])
        expect(first.headers.get(name)).toBe(second.headers.get(name));
      expect(first.headers.get("retry-after")).toBe("900");
      instance.clock.advance(2_000);
      expect((await tryLogin(known, 1)).headers.get("retry-after")).toBe("898");
      expect(first.headers.get("ratelimit-policy")).toBe('"login";q=10;w=900');
      // Even the right password has to wait; other networks are not affected.
      expectRefusal(await tryLogin(known, 1, PASSWORD), 429, "rate_limited");
      expect((await tryLogin(known, 3, PASSWORD)).status).toBe(201);
      instance.clock.advance(15 * MINUTE_MS - 2_000);
      expect((await tryLogin(known, 1, PASSWORD)).status).toBe(201);
    });

    it.runIf(onOne)("allows sixty successful logins per address and network, because each costs a hash", async () => {
      const email = await account(instance);
      for (let n = 0; n < 60; n++) expect((await tryLogin(email, 1, PASSWORD)).status).toBe(201);
      const refused = await tryLogin(email, 1, PASSWORD);
      expectRefusal(refused, 429, "rate_limited");
      expect(refused.headers.get("ratelimit-policy")).toBe('"logins";q=60;w=900');
      expect((await tryLogin(email, 2, PASSWORD)).status).toBe(201);
      instance.clock.advance(15 * MINUTE_MS);
      expect((await tryLogin(email, 1, PASSWORD)).status).toBe(201);
    });

    it("counts a burst before its passwords are checked", async () => {
      const email = await account(instance);
      const replies = await Promise.all(Array.from({ length: 30 }, () => tryLogin(email, 1)));
      expect(replies.filter(({ status }) => status === 401).length).toBeLessThanOrEqual(10);
    });

    it("allows twenty failures per address, then one try per thirty seconds; networks of earlier logins are exempt", async () => {
      const email = await account(instance);
      expect((await tryLogin(email, 1, PASSWORD)).status).toBe(201);
      await failTimes(20, email, (n) => 10 + n);
      expect((await tryLogin(email, 50)).status).toBe(401); // the one try of these thirty seconds
      expectRefusal(await tryLogin(email, 51, PASSWORD), 429, "rate_limited");
      instance.clock.advance(30_000);
      expect((await tryLogin(email, 52, PASSWORD)).status).toBe(201);
      expect((await tryLogin(email, 1, PASSWORD)).status).toBe(201);
      // After thirty days it is a network like any other.
      instance.clock.advance(30 * 24 * HOUR_MS + 1);
      await failTimes(20, email, (n) => 60 + n);
      await tryLogin(email, 90);
      expectRefusal(await tryLogin(email, 1, PASSWORD), 429, "rate_limited");
    });

    it.runIf(onOne)("allows a hundred failures per network", async () => {
      const email = await account(instance);
      for (let n = 0; n < 100; n++) expect((await tryLogin(freshEmail(), 7)).status).toBe(401);
      expectRefusal(await tryLogin(email, 7, PASSWORD), 429, "rate_limited");
      expect((await tryLogin(email, 8, PASSWORD)).status).toBe(201);
    });

    it("disables login after a hundred consecutive failures until a reset, except from networks of earlier logins", async () => {
      const email = await account(instance);
      expect((await tryLogin(email, 1, PASSWORD)).status).toBe(201);
      await failHundredTimes(email);
      instance.clock.advance(24 * HOUR_MS);
      const refused = await tryLogin(email, 300, PASSWORD);
      expectRefusal(refused, 429, "rate_limited");
      expect(refused.body.error.message).toContain("Reset the password");
      for (const name of ["retry-after", "ratelimit", "ratelimit-policy"]) expect(refused.headers.has(name)).toBe(true);
      expect((await tryLogin(email, 1, PASSWORD)).status).toBe(201);
      await instance.call(null, "POST /v1/auth/password_resets", { email });
      const { token } = await lastMail(instance, email);
      const password = "a new and better password";
      expect((await instance.call(null, "POST /v1/auth/password_resets/consume", { token, password })).status).toBe(
        200,
      );
      expect((await tryLogin(email, 300, password)).status).toBe(201);
    });

    it.runIf(onOne)("disables an address without an account in the same way", async () => {
      const email = freshEmail();
      await failHundredTimes(email);
      instance.clock.advance(24 * HOUR_MS);
      const refused = await tryLogin(email, 300);
      expectRefusal(refused, 429, "rate_limited");
      expect(refused.body.error.message).toContain("Reset the password");
    });

    it("counts wrong current passwords like logins", async () => {
      const p = await person(instance);
      const want = { current_password: "wrong", password: "whatever it may be" };
      const change = () => instance.call(p.session, "POST /v1/auth/me/password", want, { headers: at(1) });
      for (let n = 0; n < 10; n++) expectRefusal(await change(), 403, "invalid_credentials");
      expectRefusal(await change(), 429, "rate_limited");
      expectRefusal(await tryLogin(p.email, 1, PASSWORD), 429, "rate_limited");
    });

    it.runIf(onOne)("allows sixty sign-ups per hour and network, rejected before the body is read", async () => {
      const signUp = (network: number, body: unknown = {}) =>
        instance.call(null, "POST /v1/auth/users", body, { headers: at(network) });
      for (let n = 0; n < 60; n++) expect((await signUp(1)).status).toBe(400);
      expectRefusal(await signUp(1), 429, "rate_limited");
      expect((await signUp(2)).status).toBe(400);
      instance.clock.advance(HOUR_MS);
      expect((await signUp(1)).status).toBe(400);
    });

    it("sends three sign-up mails per hour and address, then responds 202 and queues nothing", async () => {
      const email = freshEmail();
      for (let n = 0; n < 5; n++) {
        const reply = await instance.call(null, "POST /v1/auth/users", { email, password: PASSWORD });
        expect(reply.status).toBe(202);
      }
      expect(await receivedMail(instance, email)).toHaveLength(3);
    });

    it("sends three reset mails per hour and address, and allows sixty requests per hour and network", async () => {
      const email = await account(instance);
      const ask = (network: number) =>
        instance.call(null, "POST /v1/auth/password_resets", { email }, { headers: at(network) });
      for (let n = 0; n < 60; n++) expect((await ask(1)).status).toBe(202);
      expectRefusal(await ask(1), 429, "rate_limited");
      expect((await ask(2)).status).toBe(202);
      expect(await receivedMail(instance, email)).toHaveLength(1 + 3);
      instance.clock.advance(HOUR_MS);
      await ask(2);
      expect(await receivedMail(instance, email)).toHaveLength(1 + 4);
    });

    it("sends five verification mails per hour and person, then responds 202 and queues nothing", async () => {
      const p = await person(instance, { verified: false });
      for (let n = 0; n < 8; n++)
        expect((await instance.call(p.session, "POST /v1/auth/email_verifications", {})).status).toBe(202);
      expect(await receivedMail(instance, p.email)).toHaveLength(1 + 5);
    });

    it("stores no address and no network in the login tables", async () => {
      await using own = await open();
      const email = freshEmail("planted");
      await tryLogin(email, 77, "wrong", own);
      const good = await account(own);
      await tryLogin(good, 77, PASSWORD, own);
      const tables = ["login_failures", "login_networks"].map((name) => own.sql(`select * from ${name}`));
      const rows = (await Promise.all(tables)).flat();
      expect(rows).toHaveLength(2);
      for (const text of ["planted", good, "10.0.77"]) expect(JSON.stringify(rows)).not.toContain(text);
    });
  });
}

it("throttles nothing when switched off", async () => {
  await using instance = await testInstance("sqlite", { flags: { throttle: "off" } });
  const email = await account(instance);
  for (let n = 0; n < 110; n++)
    expect((await instance.call(null, "POST /v1/auth/sessions", { email, password: "wrong" })).status).toBe(401);
  await logIn(instance, email);
});
