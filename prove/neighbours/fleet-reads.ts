// Reads whole fleets many times at once, as a stranger and with the victim's own test key: the event loop must stay
// free.
import { flood, type Attack } from "./attack.ts";

const NODES = 600;
const READS = 400;

export const fleetReads: Attack = {
  name: "reads of whole fleets",
  async run(stage) {
    const { attacker, victim, victimTestKey, fresh } = stage;
    const { call, key, project_id } = attacker;
    const name = `fleet-${fresh()}`;
    const node = (i: number) => `GET /v1/policy/delta?project_id=${project_id}&since=0&node=${name}-${i}`;
    await flood(stage, { count: NODES, width: 20 }, (i) => call(key, node(i)));
    const routes = [
      "GET /v1/nodes?view=fleet&limit=200",
      "GET /v1/overview",
      `GET /v1/propagation?project_id=${project_id}&version=1`,
    ];
    await Promise.all([
      flood(stage, { count: READS, width: 100 }, (i) => call(key, routes[i % routes.length] as string)),
      flood(stage, { count: READS, width: 50 }, (i) => victim.call(victimTestKey, routes[i % 2] as string)),
    ]);
    await flood(stage, { count: NODES, width: 20 }, (i) => call(key, `${node(i)}&leaving=true`));
  },
};
