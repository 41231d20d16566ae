// Guesses passwords and signs up on many connections and from many networks: the password queue serves networks and
// people in turns.
import { flood, type Attack } from "./attack.ts";

const NETWORKS = 20;
const PASSWORD = "a wrong password";

export const loginFlood: Attack = {
  name: "logins with wrong passwords",
  async run(stage) {
    const { call } = stage.attacker;
    const first = stage.random.int(0, 250);
    await flood(stage, { count: 60, width: 30 }, (i) => {
      const route = i % 3 === 0 ? "POST /v1/auth/users" : "POST /v1/auth/sessions";
      const guess = { email: `${stage.fresh()}@example.com`, password: PASSWORD };
      return call(null, route, guess, { from: `127.${1 + (i % NETWORKS)}.${first}.1` });
    });
  },
};
