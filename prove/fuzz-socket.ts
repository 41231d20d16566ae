// Bytes that are almost a request: every response must still be HTTP with our error envelope, and the server must stay
// up.
import { connect } from "node:net";
import type { Tally } from "./campaign.ts";
import { seeded, type Random } from "../harness/random.ts";

const QUIET_MS = 400;

/** Sends bytes unchanged; returns what the server sends until it closes or goes silent. */
function exchange(url: string, bytes: Buffer): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    let heard = "";
    const socket = connect(Number(port), hostname, () => socket.end(bytes));
    socket.on("data", (chunk: Buffer) => (heard += chunk.toString("latin1")));
    socket.on("close", () => resolve(heard));
    socket.on("error", () => {}); // a reset is a valid response; close follows
    socket.setTimeout(QUIET_MS, () => socket.destroy());
  });
}

function almostRequest(random: Random, key: string): Buffer {
  const body = JSON.stringify({ external_id: `s${random.int(0, 1e9)}` });
  const lines = [
    random.pick([
      "POST /v1/tenants HTTP/1.1",
      "GET /v1/workspace HTTP/1.1",
      "GET /healthz HTTP/1.0",
      "POST /v1/ratelimit/check HTTP/1.1",
    ]),
    "host: x",
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    `content-length: ${body.length}`,
  ];
  const more = [
    "transfer-encoding: chunked",
    `content-length: ${random.int(0, 99)}`,
    "content-length: -1",
    "host: y",
    "expect: 100-continue",
    "connection: upgrade\r\nupgrade: websocket",
    `x-long: ${"a".repeat(random.pick([10, 8_000, 20_000]))}`,
    "x-bad\u0000name: 1",
    " folded: 1",
    "x: \u007f\u0001",
    "authorization: Bearer krsk_live_x",
    "cookie: a=b",
    "range: bytes=0-",
    "content-encoding: gzip",
    "accept: */*;q=2",
  ];
  for (let i = random.int(0, 3); i > 0; i--) lines.splice(random.int(1, lines.length), 0, random.pick(more));
  if (random.int(0, 5) === 0) lines.splice(random.int(0, lines.length - 1), 1);
  const text = `${lines.join(random.pick(["\r\n", "\r\n", "\r\n", "\n"]))}\r\n\r\n${body}`;
  const bytes = Buffer.from(random.int(0, 3) === 0 ? text + text : text, "latin1");
  for (let i = random.pick([0, 0, 1, 3, 10]); i > 0; i--) bytes[random.int(0, bytes.length - 1)] = random.int(0, 255);
  return random.int(0, 4) === 0 ? bytes.subarray(0, random.int(1, bytes.length)) : bytes;
}

/** The statuses of a stream of responses, and the violation of the first that is not ours. */
function judgeStream(heard: string): { statuses: number[]; wrong: string | null } {
  const statuses: number[] = [];
  for (let rest = heard; rest !== ""; ) {
    const end = rest.indexOf("\r\n\r\n");
    const head = rest.slice(0, end);
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1] ?? Number.NaN);
    if (end < 0 || Number.isNaN(status)) return { statuses, wrong: `not HTTP: ${rest.slice(0, 200)}` };
    rest = rest.slice(end + 4);
    if (status === 100) continue;
    statuses.push(status);
    if (status >= 500 && status !== 503) return { statuses, wrong: `${status}: ${rest.slice(0, 300)}` };
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
    const body = rest.slice(0, length);
    rest = rest.slice(length);
    if (status < 400) continue;
    try {
      const { error } = JSON.parse(body) as { error: { code: string; message: string } };
      if (typeof error.code !== "string" || typeof error.message !== "string") throw new Error("no envelope");
    } catch {
      if (body !== "") return { statuses, wrong: `${status} without the envelope: ${body.slice(0, 200)}` };
    }
  }
  return { statuses, wrong: null };
}

export async function fuzzSocket(url: string, key: string, seed: number, tally: Tally): Promise<void> {
  const bytes = almostRequest(seeded(seed), key);
  const { statuses, wrong } = judgeStream(await exchange(url, bytes));
  if (wrong !== null)
    tally.failed(seed, `bare bytes ${JSON.stringify(bytes.toString("latin1").slice(0, 600))} → ${wrong}`);
  tally.count("requests over a raw socket");
  tally.count("responses over a raw socket", statuses.length);
}
