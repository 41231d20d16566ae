// Claims with both environments of several workspaces of one person: together they get what one owner gets of a commit.
import { PASSWORD } from "../../harness/instances/world.ts";
import type { Attack } from "./attack.ts";
import { claimBodies, pipeline } from "./pipelines.ts";

/** As many as a person with an unverified address may own. */
const WORKSPACES = 3;

export const manyCells: Attack = {
  name: "claims of many cells of one account",
  async run(stage) {
    const { random, fresh } = stage;
    const { call } = stage.attacker;
    const from = `127.${random.int(30, 90)}.${random.int(0, 250)}.1`;
    const email = `${fresh()}@example.com`;
    await call(null, "POST /v1/auth/users", { email, password: PASSWORD }, { from });
    const { status, body } = await call(null, "POST /v1/auth/sessions", { email, password: PASSWORD }, { from });
    if (status !== 201) return; // refused beside a flood of logins
    const cells: { key: string; env: string }[] = [];
    for (let i = 0; i < WORKSPACES; i++) {
      const made = await call(String(body.token), "POST /v1/workspaces", { name: "Cells", slug: fresh() });
      if (made.status !== 201) break;
      const live = String(made.body.secret_key.key);
      const test = (await call(live, "POST /v1/secret_keys", { env: "test" })).body;
      cells.push({ key: live, env: "live" }, { key: String(test.key), env: "test" });
    }
    const part = { ...stage, strength: stage.strength / cells.length };
    await Promise.all(
      cells.map(({ key, env }) =>
        pipeline(part, { key, path: "/v1/idempotency/claim", body: claimBodies(fresh(), env) }),
      ),
    );
  },
};
