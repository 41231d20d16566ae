// Sends pipelined requests on many connections, without waiting for answers: rate-limit checks, or claims, which are
// writes.
import { connect } from "node:net";
import type { Attack, Stage } from "./attack.ts";

const CONNECTIONS = 32;
/** Also of a weak flood. */
const CONNECTIONS_MIN = 2;
const PIPELINED = 50;
const BURSTS = 10;
const ANSWER = "HTTP/1.1 ";

type Request = { key: string; path: string; body: (n: number) => object };

export async function pipeline({ url, stop, strength }: Stage, { key, path, body }: Request): Promise<void> {
  const { hostname, port } = new URL(url);
  let made = 0;
  const request = (): string => {
    const text = JSON.stringify(body(made++));
    const head = `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n`;
    return `${head}content-length: ${text.length}\r\n\r\n${text}`;
  };
  const burst = (): string => Array.from({ length: PIPELINED }, request).join("");
  const client = async (): Promise<void> => {
    const socket = connect(Number(port), hostname).setEncoding("latin1");
    socket.write(burst());
    let [left, bursts, tail] = [PIPELINED, 1, ""];
    for await (const text of socket) {
      const received = tail + String(text);
      left -= received.split(ANSWER).length - 1;
      tail = received.slice(1 - ANSWER.length); // an answer may begin in one piece and continue in the next
      if (left > 0) continue;
      if (bursts++ >= BURSTS * strength || stop.aborted) break;
      left += PIPELINED;
      socket.write(burst());
    }
  };
  const connections = Math.max(CONNECTIONS_MIN, CONNECTIONS * Math.min(1, strength));
  await Promise.all(Array.from({ length: connections }, () => client().catch(() => {})));
}

export const pipelinedChecks: Attack = {
  name: "pipelined checks",
  async run(stage) {
    const { attacker, victim, victimTestKey, random } = stage;
    const limits = [{ id: "r", limit: 1e9, window_ms: 60_000, algorithm: "sliding", scope: "tenant" }];
    const subject = random.pick([
      { key: attacker.key, project_id: attacker.project_id, env: "live" },
      { key: victimTestKey, project_id: victim.project_id, env: "test" },
    ]);
    const { key, ...scope } = subject;
    const body = () => ({ ...scope, tenant_id: scope.project_id, limits });
    await pipeline(stage, { key, path: "/v1/ratelimit/check", body });
  },
};

/** A new claim for each number. */
export function claimBodies(name: string, env: string): Request["body"] {
  const start = Buffer.from(name).toString("hex").slice(0, 40);
  const scope_hash = (n: number): string => `${start}${n.toString(16)}`.padEnd(64, "0");
  return (n) => ({ env, scope_hash: scope_hash(n), fingerprint: "a".repeat(64) });
}

export const pipelinedClaims: Attack = {
  name: "pipelined claims",
  async run(stage) {
    const { attacker, fresh } = stage;
    const body = claimBodies(fresh(), "live");
    await pipeline(stage, { key: attacker.key, path: "/v1/idempotency/claim", body });
  },
};
