// Forges rate-limit subjects to fill the counters that all share, as a stranger and with the victim's own test key.
import { flood, type Attack } from "./attack.ts";

const RULES = 10;

export const forgedCounters: Attack = {
  name: "forged rate counters",
  async run(stage) {
    const { attacker, victim, victimTestKey } = stage;
    const limits = Array.from({ length: RULES }, (_, i) => ({
      id: `forged-${i}`,
      limit: 10,
      window_ms: 3_600_000,
      algorithm: i % 2 === 0 ? "fixed" : "sliding",
      scope: "tenant",
    }));
    await flood(stage, { count: 1_500, width: 16 }, (i) => {
      const stranger = i % 2 === 0;
      const tenant_id = crypto.randomUUID();
      const subject = stranger
        ? { project_id: attacker.project_id, env: "live", tenant_id, limits }
        : { project_id: victim.project_id, env: "test", tenant_id, limits };
      return attacker.call(stranger ? attacker.key : victimTestKey, "POST /v1/ratelimit/check", subject);
    });
  },
};
