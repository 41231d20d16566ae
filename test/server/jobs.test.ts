// Scheduled jobs that bound rows which anyone can cause.
import { describe, expect, it } from "vitest";
import { backends } from "../../harness/databases/backends.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { trimLoginFailures } from "../../src/store/queries/logins.ts";
import { record } from "../../src/domain/core/record.ts";
import { jobs } from "../../src/server/jobs.ts";

const DAY = 86_400_000;

for (const back of backends) {
  describe(`old sessions and tokens on ${back}`, () => {
    it("keep a person's open sessions and the newest 100 of those that ended", async () => {
      await using r = await testInstance(back);
      const now = r.clock.now();
      const columns =
        "id, user_id, lookup_hash, display_prefix, created_at, last_seen_at, expires_at, absolute_expires_at, revoked_at";
      const insert = (user: string, name: string, count: number, revoked_at: number | "null"): Promise<unknown> => {
        const rows = Array.from({ length: count }, (_, i) => {
          const times = [now + i, now, now + DAY, now + DAY, revoked_at].join(", ");
          return `('${name}-${i}', '${user}', '${name}-${i}', 'x', ${times})`;
        });
        return r.sql(`insert into sessions (${columns}) values ${rows.join(", ")}`);
      };
      await r.sql(
        "insert into users (id, email, email_key, password_phc, created_at, updated_at) values ('a', 'a', 'a', '', 0, 0), ('b', 'b', 'b', '', 0, 0)",
      );
      await insert("a", "open", 3, "null");
      await insert("a", "ended", 105, now);
      await insert("b", "other", 2, now);
      await jobs.find(({ name }) => name === "old sessions and tokens")?.run(r.app.services);
      const left = (await r.sql("select id from sessions where user_id in ('a', 'b')")).map(({ id }) => String(id));
      expect(left).toHaveLength(3 + 100 + 2);
      expect(left.includes("ended-4")).toBe(false);
      expect(left.includes("ended-5")).toBe(true);
    });

    it("keep the newest failed log-ins, and those that have disabled an address", async () => {
      await using r = await testInstance(back);
      const rows = Array.from({ length: 6 }, (_, i) => `('a${i + 2}', '', 1, ${i + 2})`);
      await r.sql(
        `insert into login_failures (address_key, bucket, consecutive, failed_at) values ('disabled', '', 100, 1), ${rows.join(", ")}`,
      );
      await record(r.app.services, (tx) => trimLoginFailures.run(tx, { keep: 4, max: 100 }));
      const left = await r.sql("select address_key from login_failures order by failed_at");
      expect(left.map(({ address_key }) => address_key)).toEqual(["disabled", "a4", "a5", "a6", "a7"]);
    });
  });
}
