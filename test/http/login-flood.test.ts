// A flood of logins whose hashing is slow enough to queue: shed early, for known and unknown addresses alike, without
// affecting other requests.
import { describe, expect, it } from "vitest";
import { PASSWORD_COST } from "../../src/domain/auth/password.ts";
import { account, freshEmail, logIn, PASSWORD } from "../../harness/instances/people.ts";
import { testInstance, type Reply } from "../../harness/instances/test-instance.ts";
import { pace, until } from "../../harness/waiting.ts";

const FLOOD = 120;
const CONNECTIONS = 45;
const OWN_ACCOUNTS = 5;
/** Slow enough to queue. */
const AN_EIGHTH = { ...PASSWORD_COST, memoryCost: PASSWORD_COST.memoryCost / 8 };

// On one database: passwords wait for a thread, whatever stores them.
describe("a flood of logins", () => {
  it("gets 503 for known and unknown addresses alike, while other requests are served", async () => {
    await using instance = await testInstance("sqlite", { passwordCost: AN_EIGHTH });
    const email = await account(instance);
    const workspace = await instance.workspace();
    const flood = Array.from({ length: FLOOD }, (_, n) =>
      instance.call(null, "POST /v1/auth/sessions", { email: n % 2 ? email : freshEmail(), password: "wrong" }),
    );
    const state = { flooding: true };
    const beside: Reply[] = [];
    const watch = (async () => {
      while (state.flooding) {
        beside.push(await instance.call(null, "GET /healthz"));
        beside.push(await workspace.call("sk_owner", "GET /v1/workspace"));
        await pace();
      }
    })();
    const replies = await Promise.all(flood);
    state.flooding = false;
    await watch;
    const by = (status: number, known: boolean): Reply[] =>
      replies.filter((reply, n) => reply.status === status && (n % 2 === 1) === known);
    expect(replies.every(({ status }) => status === 401 || status === 503)).toBe(true);
    for (const known of [true, false]) {
      expect(by(503, known).length).toBeGreaterThan(10);
      expect(by(401, known).length).toBeGreaterThan(0);
    }
    const [refused] = by(503, true) as [Reply];
    expect(refused.body.error.code).toBe("unavailable");
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(by(503, false)[0]?.text).toBe(refused.text);
    expect(beside.length).toBeGreaterThan(2); // requests that wait for the flood would be the first two
    expect(beside.every(({ status }) => status === 200)).toBe(true);
    // Shed logins do not count as failed ones, and logging in works again.
    await logIn(instance, email);
  });

  it("with right passwords, from one network, refuses no login from another", async () => {
    const flags = { trust_proxy: "127.0.0.1" };
    await using instance = await testInstance("sqlite", { passwordCost: AN_EIGHTH, flags });
    const logInFrom = (network: number, email: string) =>
      instance.call(
        null,
        "POST /v1/auth/sessions",
        { email, password: PASSWORD },
        { headers: { "x-forwarded-for": `10.0.${network}.1` } },
      );
    const victims = [await account(instance), await account(instance)] as const;
    expect((await logInFrom(2, victims[0])).status).toBe(201);
    const own = await Promise.all(Array.from({ length: OWN_ACCOUNTS }, () => account(instance)));
    const state = { flooding: true };
    const seen = new Set<number>();
    const flood = Array.from({ length: CONNECTIONS }, async (_, n) => {
      while (state.flooding) {
        const { status } = await logInFrom(1, own[n % OWN_ACCOUNTS] as string);
        seen.add(status);
        if (status === 503) await pace();
      }
    });
    await until(() => seen.has(503));
    const statuses = [await logInFrom(2, victims[0]), await logInFrom(2, victims[0]), await logInFrom(3, victims[1])];
    state.flooding = false;
    await Promise.all(flood);
    expect(statuses.map(({ status }) => status)).toEqual([201, 201, 201]);
  });
});
