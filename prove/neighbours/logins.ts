// Guesses passwords on many connections: the password queue serves networks and people in turns.
import { flood, type Attack } from "./attack.ts";

export const loginFlood: Attack = {
  name: "log-ins with wrong passwords",
  async run(stage) {
    const { call } = stage.attacker;
    await flood(stage, { count: 60, width: 30 }, () =>
      call(null, "POST /v1/auth/sessions", { email: `${stage.fresh()}@example.com`, password: "a wrong password" }),
    );
  },
};
