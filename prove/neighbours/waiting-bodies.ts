// Sends large bodies without a credential on many connections of one network, and never their ends: a few fill its
// share, and what the others have sent must not be kept.
import { keepOpen, type Attack } from "./attack.ts";

const CONNECTIONS = 1_000;
const LENGTH = 250_000;
const SENT = 130_000;

export const waitingBodies: Attack = {
  name: "waiting bodies",
  async run(stage) {
    const head = `POST /v1/auth/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${LENGTH}\r\n\r\n`;
    const bytes = Buffer.from(`${head}{"email":"${"x".repeat(SENT)}`);
    const network = `127.${stage.random.int(30, 250)}.${stage.random.int(0, 250)}.1`;
    await keepOpen(stage, CONNECTIONS, bytes, network);
  },
};
