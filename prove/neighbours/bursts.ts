// Sends more small requests at once than the server reads in one piece, without a credential, on one connection after
// another.
import { connect } from "node:net";
import { flood, type Attack } from "./attack.ts";

const CONNECTIONS = 8;
const BURSTS = 200;
const REQUESTS = 4_000;
const LONGEST_MS = 2_000;

export const bursts: Attack = {
  name: "bursts of requests",
  async run(stage) {
    const { hostname, port } = new URL(stage.url);
    const path = stage.random.pick(["/healthz", "/v1/keys"]);
    const burst = `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(REQUESTS);
    const send = (): Promise<void> =>
      new Promise((resolve) => {
        const socket = connect(Number(port), hostname).on("error", () => {});
        socket.setTimeout(LONGEST_MS, () => socket.destroy()).once("close", () => resolve());
        socket.resume().write(burst);
      });
    await flood(stage, { count: BURSTS, width: CONNECTIONS }, send);
  },
};
