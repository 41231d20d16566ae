// Daily quotas of mail to an address.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, type TestServices } from "../../../harness/instances/test-services.ts";
import { record } from "../../../src/domain/core/record.ts";
import { countRequestedMail } from "../../../src/domain/mail/daily-limits.ts";

const PER_DAY = 10;

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
