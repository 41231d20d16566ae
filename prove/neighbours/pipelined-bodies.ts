// Sends requests with bodies behind a long poll on many connections: they wait for it, and must not all be kept.
import { keepOpen, type Attack } from "./attack.ts";

const CONNECTIONS = 128;
const PIPELINED = 16;
const BODY = "x".repeat(63 * 1024);

export const pipelinedBodies: Attack = {
  name: "pipelined bodies",
  async run(stage) {
    const { call, key, project_id } = stage.attacker;
    const { body } = await call(key, `GET /v1/policy/snapshot?project_id=${project_id}`);
    const fields = `HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n`;
    const poll = `GET /v1/policy/delta?project_id=${project_id}&since=${body.version}&wait_ms=25000 ${fields}\r\n`;
    const post = `POST /v1/ratelimit/check ${fields}content-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`;
    const bytes = Buffer.from(poll + post.repeat(PIPELINED));
    await keepOpen(stage, CONNECTIONS, bytes);
  },
};
