// Requests that are refused, and logged, from many networks: bad credentials, and what a credential may not do.
import { flood, type Attack } from "./attack.ts";

const REQUESTS = 2_000;
const NETWORKS = 200;

export const refusals: Attack = {
  name: "refused requests of many networks",
  async run(stage) {
    const { attacker, victim } = stage;
    const first = stage.random.int(0, 50);
    await flood(stage, { count: REQUESTS, width: 20 }, (i) => {
      const from = `127.${30 + (i % NETWORKS)}.${first}.1`;
      const bearer = i % 2 === 0 ? `krsk_live_${stage.fresh()}` : attacker.key;
      const route = i % 2 === 0 ? "GET /v1/workspace" : `GET /v1/projects/${victim.project_id}`;
      return attacker.call(bearer, route, undefined, { from });
    });
  },
};
