// `keyrack user unlock` on a deployment of several processes: each has throttle windows of its own.
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { throttleKey, type Throttle } from "../../src/domain/limits/throttles.ts";
import { unlockUser } from "../../src/domain/workspaces/operators.ts";
import { networkOwner } from "../../src/fairness/owners.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { startLocalInstance } from "../../harness/instances/local-instance.ts";
import { account } from "../../harness/instances/people.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { tempDir } from "../../harness/processes/cli.ts";

const ONE: Throttle = { name: "login", limit: 1, windowMs: 3_600_000 };

describe.runIf(runBackends.includes("postgres"))("an unlocked account on PostgreSQL", () => {
  it("is unlocked in every process, and other accounts are not", async () => {
    await using instance = await testInstance("postgres", { flags: { throttle: "on" } });
    using temp = tempDir();
    const email = await account(instance);
    const master_key_file = join(instance.dataDir, "master.key");
    const flags = { throttle: "on", master_key_file };
    const { app } = await startLocalInstance({ target: instance.target, dir: temp.dir, flags });
    const { throttles } = app.services;
    const take = (subject: string) => throttles.tryTake(ONE, subject, networkOwner("192.0.2.1"));
    const [own, other] = [email, "other@example.com"].map((each) => throttleKey(app.services, each));
    for (const subject of [own, other] as string[])
      expect([take(subject), take(subject)?.failure]).toEqual([undefined, "rate_limited"]);
    await unlockUser(instance.app.services, email);
    await expect.poll(() => take(own as string)).toBeUndefined();
    expect(take(other as string)).toBeDefined();
    await app.stop();
  });
});
