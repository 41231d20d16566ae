// Opens more silent connections of one network than the server may have: they evict each other, not those of others.
import { keepOpen, type Attack } from "./attack.ts";

/** For the server's environment: a bound that the files one process may open suffice to reach. */
export const CONNECTIONS_ENV = { KEYRACK_CONNECTIONS_MAX: "2000" };
const CONNECTIONS = 2_500;

export const silentConnections: Attack = {
  name: "silent connections of one network",
  async run(stage) {
    const network = `127.${stage.random.int(30, 250)}.${stage.random.int(0, 250)}.1`;
    await keepOpen(stage, CONNECTIONS, Buffer.alloc(0), network);
  },
};
