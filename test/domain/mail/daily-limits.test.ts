// Daily quotas of mail to an address, and of an account's invitations.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { START, testServices, type TestServices } from "../../../harness/instances/test-services.ts";
import { record } from "../../../src/domain/core/record.ts";
import { countInviteMail, countRequestedMail } from "../../../src/domain/mail/daily-limits.ts";
import { GIVE_UP_MS, reapOutbox } from "../../../src/domain/mail/outbox.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";

const PER_DAY = 10;
const INVITES_PER_DAY = 20;
const TO_ONE_ADDRESS = 3;

describe.each(runBackends)("mail that a person requests, on %s", (backend) => {
  let fixture: TestServices;
  beforeAll(async () => {
    fixture = await testServices(backend, { flags: { throttle: "on" } });
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  it("is sent ten times a day to one address, however the clock moves meanwhile", async () => {
    let now = fixture.services.clock.now();
    const services = { ...fixture.services, clock: { ...fixture.clock, now: () => ++now } };
    const request = (email: string): Promise<boolean> =>
      record(services, (tx) => countRequestedMail(services, tx, "sign_up", email));
    for (let i = 0; i < PER_DAY; i++) expect(await request("ada@example.com")).toBe(true);
    expect(await request("ada@example.com")).toBe(false);
    expect(await request("grace@example.com")).toBe(true);
  });
});

describe.each(runBackends)("mail that a clock counted in the future, on %s", (backend) => {
  const AHEAD = START + 30 * DAY_MS;

  async function world() {
    const fixture = await testServices(backend, {
      flags: { throttle: "on", invite_mails_per_day: String(INVITES_PER_DAY) },
    });
    const { services } = fixture;
    const request = (): Promise<boolean> =>
      record(services, (tx) => countRequestedMail(services, tx, "reset", "ada@example.com"));
    /** When it may leave, from now; the failure if it is refused. */
    const invite = (account_id: string, email_key = "ada@example.com"): Promise<unknown> => {
      const now = fixture.clock.now();
      const mail = { account_id, email_key, until: now + GIVE_UP_MS };
      const counting = record(services, (tx) => countInviteMail(services, tx, mail));
      return counting.then(
        (at) => at - now,
        ({ failure }: { failure: string }) => failure,
      );
    };
    const rows = async (): Promise<number> => (await fixture.sql("select id from mail_counts")).length;
    return Object.assign(fixture, { request, invite, rows });
  }

  it("limits no request", async () => {
    await using w = await world();
    w.clock.set(AHEAD);
    for (let i = 0; i < PER_DAY; i++) expect(await w.request()).toBe(true);
    w.clock.set(AHEAD - HOUR_MS); // the clocks of hosts may differ by an hour
    expect(await w.request()).toBe(false);
    w.clock.set(START);
    for (let i = 0; i < PER_DAY; i++) expect(await w.request()).toBe(true);
    expect(await w.request()).toBe(false);
  });

  it("limits no invitation of an account, to one address or in all, and holds none back", async () => {
    await using w = await world();
    const inviteMany = async (account: string): Promise<unknown[]> => {
      const all: unknown[] = [];
      for (let i = 0; i < TO_ONE_ADDRESS; i++) all.push(await w.invite(account));
      for (let i = TO_ONE_ADDRESS; i < INVITES_PER_DAY; i++) all.push(await w.invite(account, `n${i}@example.com`));
      return all;
    };
    const spent = ["invite_mails_spent", "invite_mails_spent"];
    for (const at of [AHEAD, START]) {
      w.clock.set(at);
      expect(new Set(await inviteMany("a"))).toEqual(new Set([0]));
      expect([await w.invite("a"), await w.invite("a", "late@example.com")]).toEqual(spent);
      for (let i = TO_ONE_ADDRESS; i < PER_DAY; i++) expect(await w.invite(`other ${i}`)).toBe(0);
      expect(await w.invite("held back")).toBe(DAY_MS);
    }
  });

  it("is deleted; what was counted now and leaves days later is kept", async () => {
    await using w = await world();
    w.clock.set(AHEAD);
    await w.request();
    w.clock.set(START);
    for (let i = 0; i <= 2 * PER_DAY; i++) await w.invite(`account ${i}`);
    expect(await w.invite("last")).toBe(2 * DAY_MS);
    const before = await w.rows();
    await reapOutbox(w.services);
    expect(await w.rows()).toBe(before - 1);
    w.clock.advance(HOUR_MS);
    expect(await w.invite("next")).toBe(2 * DAY_MS - HOUR_MS);
  });
});
