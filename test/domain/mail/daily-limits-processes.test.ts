// Daily limits of mail, where several processes on one PostgreSQL count at the same moment.
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { until } from "../../../harness/waiting.ts";
import { requestReset } from "../../../src/domain/auth/password-resets.ts";
import { signUp } from "../../../src/domain/auth/users.ts";
import type { AnonymousActor, SecretKeyActor } from "../../../src/domain/core/actor.ts";
import type { Ctx, Services } from "../../../src/domain/core/context.ts";
import { record } from "../../../src/domain/core/record.ts";
import { throttleKey } from "../../../src/domain/limits/throttles.ts";
import { createInvite } from "../../../src/domain/workspaces/invites.ts";
import type { Job } from "../../../src/store/engine/job.ts";
import { insertMailCount } from "../../../src/store/queries/mail-counts.ts";

const EMAIL = "ada@example.com";
const PER_DAY = 10;
const INVITES_TO_ONE_ADDRESS = 3;

describe.runIf(runBackends.includes("postgres"))("mail that two processes count at once", () => {
  let fixture: TestServices;
  let other: TestServices;
  beforeAll(async () => {
    fixture = await testServices("postgres", { flags: { throttle: "on" } });
    other = await fixture.another();
  });
  beforeEach(async () => void (await fixture.sql("delete from mail_counts")));
  afterAll(async () => {
    await other[Symbol.asyncDispose]();
    await fixture[Symbol.asyncDispose]();
  });

  /** As if `n` had been counted before. */
  async function count(kind: "invite" | "sign_up" | "reset", n: number, account_id: string | null): Promise<void> {
    const { services } = fixture;
    const now = services.clock.now();
    const row = { kind, account_id, address_key: throttleKey(services, EMAIL), counted_at: now, sends_at: now };
    await record(services, async (tx) => {
      for (let i = 0; i < n; i++) await insertMailCount.run(tx, { ...row, id: services.newId() });
    });
  }

  async function isAnyLockAwaited(): Promise<boolean> {
    const waiting = `select 1 from pg_locks where not granted and locktype = 'advisory'
      and database = (select oid from pg_database where datname = current_database())`;
    return (await fixture.sql(waiting)).length > 0;
  }

  /** The first has counted, and commits once the second has counted too or waits for it. */
  async function race<T>(first: (services: Services) => Promise<T>, second: (services: Services) => Promise<T>) {
    const { store } = fixture.services;
    const counted = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const write = store.write.bind(store);
    const hold = <V>(job: Job<V>): Promise<V> => {
      const work = async (...[tx]: Parameters<Job<V>["work"]>): ReturnType<Job<V>["work"]> => {
        const result = await job.work(tx);
        counted.resolve();
        await release.promise;
        return result;
      };
      return write({ ...job, work });
    };
    const spy = vi.spyOn(store, "write").mockImplementationOnce(hold);
    const one = first(fixture.services);
    await counted.promise;
    let isDone = false;
    const two = second(other.services).finally(() => void (isDone = true));
    two.catch(() => {});
    try {
      await until(async () => isDone || (await isAnyLockAwaited()));
    } finally {
      spy.mockRestore();
      release.resolve();
    }
    return Promise.allSettled([one, two]);
  }

  /** Two workspaces, of one account or of two. */
  async function vendors(accounts: readonly [string, string]): Promise<Ctx<SecretKeyActor>[]> {
    const all = [await vendorOf(fixture.services), await vendorOf(fixture.services)];
    for (const [i, { actor }] of all.entries())
      await fixture.sql("update workspaces set created_by = $1 where id = $2", [accounts[i] ?? "", actor.workspace_id]);
    return all;
  }

  const invite = (ctx: Ctx<SecretKeyActor> | undefined) => (services: Services) => {
    if (!ctx) throw new Error("there are two");
    return createInvite({ ...ctx, services }, { email: EMAIL, role: "member" });
  };

  it("is three invitations from one account to one address, from any workspace", async () => {
    const account = fixture.services.newId();
    const [one, two] = await vendors([account, account]);
    await count("invite", INVITES_TO_ONE_ADDRESS - 1, account);
    const results = await race(invite(one), invite(two));
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    expect(results[1]).toMatchObject({ reason: { failure: "invite_mails_spent" } });
  });

  it("is ten invitations to one address, from any account: the next is held", async () => {
    const [one, two] = await vendors([fixture.services.newId(), fixture.services.newId()]);
    await count("invite", PER_DAY - 1, fixture.services.newId());
    const results = await race(invite(one), invite(two));
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
    const now = fixture.services.clock.now();
    const due = await fixture.sql("select 1 from mail_counts where sends_at <= $1", [now]);
    expect(due).toHaveLength(PER_DAY);
  });

  const anonymous = (services: Services): Ctx<AnonymousActor> => ({ services, actor: { kind: "anonymous" } });
  const person = { email: EMAIL, password: "correct horse battery staple" };

  it.each([
    ["reset", (services: Services) => requestReset(anonymous(services), EMAIL)],
    ["sign_up", (services: Services) => signUp(anonymous(services), person)],
  ] as const)("is ten to one address that someone requests (%s)", async (kind, request) => {
    await count(kind, PER_DAY - 1, null);
    await race<unknown>(request, request);
    expect(await fixture.sql("select 1 from mail_counts where kind = $1", [kind])).toHaveLength(PER_DAY);
  });
});
