// Opens many long polls, as a stranger and with the victim's own test key.
import { flood, type Attack } from "./attack.ts";

export const longPolls: Attack = {
  name: "long polls",
  async run(stage) {
    const { attacker, victim, victimTestKey } = stage;
    const poll = async (key: string, project_id: string): Promise<void> => {
      const route = `GET /v1/policy/snapshot?project_id=${project_id}`;
      const { body } = await attacker.call(key, route);
      const wait = `GET /v1/policy/delta?project_id=${project_id}&since=${body.version}&wait_ms=1000&node=${stage.fresh()}`;
      await attacker.call(key, wait);
    };
    await flood(stage, { count: 120, width: 60 }, (i) =>
      i % 2 === 0 ? poll(attacker.key, attacker.project_id) : poll(victimTestKey, victim.project_id),
    );
  },
};
