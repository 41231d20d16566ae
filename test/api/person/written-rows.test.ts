// What a person writes outside of workspaces is bounded: the deployment's audit log is kept forever, and anyone who may
// sign up is a person.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { deploymentActions, person } from "../../../harness/instances/people.ts";
import { expectRefusal, testInstance } from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { soleOwner } from "../../../src/fairness/owners.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";

const MIB = 1024 * 1024;

for (const backend of runBackends) {
  describe(`what a person writes on ${backend}`, () => {
    it("is 30 renames an hour, whatever others do", async () => {
      const clock = testClock(20_000 * DAY_MS);
      await using instance = await testInstance(backend, { clock, flags: { throttle: "on" } });
      const [ada, bob] = [await person(instance), await person(instance)];
      const rename = (session: string, name: string) => instance.call(session, "PATCH /v1/auth/me", { name });
      for (let i = 0; i < 30; i++) expect((await rename(ada.session, `Ada ${i}`)).status).toBe(200);
      const refused = await rename(ada.session, "Ada 30");
      expectRefusal(refused, 429, "rate_limited");
      expect(refused.headers.get("ratelimit-policy")).toBe('"renames";q=30;w=3600');
      expect((await rename(bob.session, "Bob")).status).toBe(200);
      const renames = (await deploymentActions(instance)).filter((action) => action === "user.updated");
      expect(renames).toHaveLength(31);
      clock.advance(HOUR_MS);
      expect((await rename(ada.session, "Ada 31")).status).toBe(200);
    });

    it("counts, and is refused at their share until midnight, except for the end of a session", async () => {
      const clock = testClock(20_000 * DAY_MS);
      await using instance = await testInstance(backend, { clock, flags: { throttle: "on" } });
      const ada = await person(instance);
      const { shares, writtenBytes } = instance.app.services;
      const owner = soleOwner("person", ada.id);
      const rename = (name: string) => instance.call(ada.session, "PATCH /v1/auth/me", { name });
      const before = shares.of("disk").usedBy(owner);
      expect((await rename("Ada")).status).toBe(200);
      const written = shares.of("disk").usedBy(owner) - before;
      expect([written > 100, written < 10_000]).toEqual([true, true]);
      writtenBytes.add(owner, 64 * MIB);
      const refused = await rename("Augusta");
      expectRefusal(refused, 429, "rate_limited");
      expect(refused.headers.get("ratelimit-policy")).toBe('"writes";q=64;w=86400');
      expect(shares.of("disk").refused.get("person")).toBe(1);
      await writtenBytes.flush(); // which knows rows of workspaces only
      const other = await person(instance);
      expect((await instance.call(other.session, "PATCH /v1/auth/me", { name: "Bob" })).status).toBe(200);
      const login = await instance.call(null, "POST /v1/auth/sessions", { email: ada.email, password: ada.password });
      expect(login.status).toBe(201);
      expect((await instance.call(ada.session, `DELETE /v1/auth/sessions/${login.body.id}`)).status).toBe(200);
      clock.advance(DAY_MS);
      const again = await instance.call(null, "POST /v1/auth/sessions", { email: ada.email, password: ada.password });
      const later = await instance.call(again.body.token, "PATCH /v1/auth/me", { name: "Augusta" });
      expect(later.status, later.text).toBe(200);
    });
  });
}
