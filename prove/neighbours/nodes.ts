// Registers nodes that do not exist with the victim's test key: a live revocation must still wait for its live node.
import { flood, type Attack } from "./attack.ts";

export const forgedNodes: Attack = {
  name: "forged nodes",
  async run(stage) {
    const { attacker, victim, victimTestKey } = stage;
    const route = `GET /v1/policy/delta?project_id=${victim.project_id}&since=1&node=`;
    await flood(stage, { count: 300, width: 10 }, () =>
      attacker.call(victimTestKey, `${route}forged-${stage.fresh()}`),
    );
  },
};
