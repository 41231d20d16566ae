// Waits for a node that never acknowledges, as a stranger and with the victim's own test key, while acknowledgements
// arrive: the victim's own call must still wait for its node, and answer when that has the version.
import { flood, type Attack, type Stage } from "./attack.ts";

const CALLS = 300;
const WAIT_MS = 1_000;

export const propagationWaits: Attack = {
  name: "calls that wait for nodes",
  async run(stage) {
    const { attacker, victim, victimTestKey, fresh } = stage;
    const behind = `behind-${fresh()}`;
    const wait = (key: string, project_id: string) =>
      attacker.call(key, `GET /v1/propagation?project_id=${project_id}&version=1&wait_ms=${WAIT_MS}`);
    const report = (key: string, project_id: string, node: string) =>
      attacker.call(key, `GET /v1/policy/delta?project_id=${project_id}&since=0&node=${node}`);
    const owners = [
      [attacker.key, attacker.project_id],
      [victimTestKey, victim.project_id],
    ] as const;
    for (const [key, project_id] of owners) await report(key, project_id, behind);
    const flooding = Promise.all(
      owners.map(([key, project_id]) =>
        flood(stage, { count: CALLS, width: 150 }, async (i) => {
          if (i % 10 === 0) await report(key, project_id, `${behind}-${i}`);
          else await wait(key, project_id);
        }),
      ),
    );
    await checkVictim(stage);
    await flooding;
    const leave = (key: string, project_id: string, node: string) =>
      attacker.call(key, `GET /v1/policy/delta?project_id=${project_id}&since=0&node=${node}&leaving=true`);
    for (const [key, project_id] of owners) {
      await leave(key, project_id, behind);
      for (let i = 0; i < CALLS * stage.strength; i += 10) await leave(key, project_id, `${behind}-${i}`);
    }
  },
};

/** In a project of its own, so that its nodes are known. */
async function checkVictim({ victim: { call, key }, fresh, broken }: Stage): Promise<void> {
  const project = await call(key, "POST /v1/projects", { name: "P", slug: fresh() });
  if (project.status !== 201) return; // the quota of another attack
  const { id, policy_version } = project.body;
  const poll = (since: number) => call(key, `GET /v1/policy/delta?project_id=${id}&since=${since}&node=n`);
  await poll(0);
  const waiting = call(key, `GET /v1/propagation?project_id=${id}&version=${policy_version}&wait_ms=20000`);
  await poll(policy_version);
  const { status, body } = await waiting;
  if (status === 200 && !body.complete)
    broken(`a call with ${body.acked_nodes} of ${body.total_nodes} nodes ended early`);
  await call(key, `DELETE /v1/projects/${id}`);
}
