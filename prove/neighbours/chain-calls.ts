// Verifies audit chains again and again, as a stranger and with the victim's own test key: their threads must not be
// taken from others.
import { flood, type Attack } from "./attack.ts";

const CALLS = 200;

export const chainCalls: Attack = {
  name: "verifications of audit chains",
  async run(stage) {
    const { attacker, victim, victimTestKey } = stage;
    await flood(stage, { count: CALLS, width: 20 }, (i) => {
      const route = `GET /v1/audit_logs/chain${i % 2 === 0 ? "?full=true" : ""}`;
      return i % 4 === 0 ? victim.call(victimTestKey, route) : attacker.call(attacker.key, route);
    });
  },
};
