// Scheduled jobs that bound rows which anyone can cause.
import { describe, expect, it, vi } from "vitest";
import { runBackends } from "../../harness/databases/backends.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { trimLoginFailures, reapLogins } from "../../src/domain/auth/retention.ts";
import { jobs } from "../../src/server/jobs.ts";
import { DAY_MS } from "../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`old sessions and tokens on ${backend}`, () => {
    it("are deleted in pieces of 1,000 rows, each with a commit of its own", async () => {
      await using instance = await testInstance(backend);
      const { services } = instance.app;
      const ends = instance.clock.now() - 31 * DAY_MS;
      const session = (i: number) =>
        `('s${i}', 'a', 's${i}', 'x', 0, 0, ${ends + (i === 0 ? 2 * DAY_MS : 0)}, ${2 * ends})`;
      const token = (i: number) => `('t${i}', 'a', 'password_reset', 0, ${ends})`;
      const rows = (row: (i: number) => string) => Array.from({ length: 2_101 }, (_, i) => row(i)).join(", ");
      await instance.sql(
        "insert into users (id, email, email_key, password_phc, created_at, updated_at) values ('a', 'a', 'a', '', 0, 0)",
      );
      await instance.sql(
        `insert into sessions (id, user_id, lookup_hash, display_prefix, created_at, last_seen_at, expires_at, absolute_expires_at) values ${rows(session)}`,
      );
      await instance.sql(
        `insert into one_time_tokens (token_hash, user_id, purpose, created_at, expires_at) values ${rows(token)}`,
      );
      const pieces: number[] = [];
      const write = services.store.write.bind(services.store);
      const writing = vi.spyOn(services.store, "write").mockImplementation(async (job) => {
        const done = await write(job);
        pieces.push(Number(done));
        return done;
      });
      await reapLogins(services);
      writing.mockRestore();
      expect(pieces.filter((deleted) => deleted > 0)).toEqual([1_000, 1_000, 100, 1_000, 1_000, 101]);
      expect(await instance.sql("select id from sessions where user_id = 'a'")).toEqual([{ id: "s0" }]);
      expect(await instance.sql("select token_hash from one_time_tokens where user_id = 'a'")).toEqual([]);
    });

    it("keep the newest failed logins, and those that have disabled an address", async () => {
      await using instance = await testInstance(backend);
      const now = instance.clock.now();
      const rows = Array.from({ length: 6 }, (_, i) => `('a${i + 2}', '', 1, ${now + i + 2})`);
      await instance.sql(
        `insert into login_failures (address_key, bucket, consecutive, failed_at) values ('disabled', '', 100, 1), ('old', '', 99, ${now - 91 * DAY_MS}), ${rows.join(", ")}`,
      );
      const left = async () =>
        (await instance.sql("select address_key from login_failures order by failed_at")).map(
          (row) => row["address_key"],
        );
      await jobs.find(({ name }) => name === "old sessions and tokens")?.run(instance.app.services);
      expect(await left()).toEqual(["disabled", "a2", "a3", "a4", "a5", "a6", "a7"]);
      await trimLoginFailures(instance.app.services, 4);
      expect(await left()).toEqual(["disabled", "a4", "a5", "a6", "a7"]);
      await instance.sql("update login_failures set consecutive = 50 where address_key = 'a4'");
      await trimLoginFailures(instance.app.services, 2);
      expect(await left()).toEqual(["disabled", "a4", "a7"]); // newer rows of other addresses do not displace it
      await trimLoginFailures(instance.app.services, 0);
      expect(await left()).toEqual(["disabled"]);
    });
  });
}
