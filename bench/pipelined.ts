// A client that sends requests in bursts on several connections, each with a body of its own, from a new process. It is
// the flood beside which a neighbour is measured, and, with one connection and bursts of one, the neighbour itself.
import { fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { constants, setPriority } from "node:os";

export type Request = {
  path: string;
  key?: string;
  /** `{n}` becomes 64 hexadecimal digits, new with each request. */
  body?: string;
  /** Sent with the time in a header, for servers/inside.mjs. */
  label?: string | undefined;
};

type Burst = {
  url: string;
  /** Each connection repeats one of them. */
  requests: readonly Request[];
  connections: number;
  /** Requests sent at once on a connection; the next burst follows their answers. */
  pipelined: number;
  warmMs: number;
  forMs: number;
};

const ANSWER = "HTTP/1.1 ";

/** Returns how long each burst took, in milliseconds, without the warm-up. */
export async function sendBursts(burst: Burst): Promise<number[]> {
  const { hostname } = new URL(burst.url);
  if (hostname !== "127.0.0.1") throw new Error("loopback only");
  const child = fork(import.meta.filename, ["client"], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  child.send(burst);
  const [times] = (await once(child, "message")) as [number[]];
  return times;
}

function textOf({ path, key, body, label }: Request): string {
  const bench = label === undefined ? "" : `bench: ${label} ${Number(process.hrtime.bigint()) / 1e6}\r\n`;
  const credential = key === undefined ? bench : `authorization: Bearer ${key}\r\n${bench}`;
  if (body === undefined) return `GET ${path} HTTP/1.1\r\nhost: x\r\n${credential}\r\n`;
  const text = body.replace("{n}", randomBytes(32).toString("hex"));
  const type = `content-type: application/json\r\ncontent-length: ${text.length}\r\n`;
  return `POST ${path} HTTP/1.1\r\nhost: x\r\n${credential}${type}\r\n${text}`;
}

/** One connection until it is closed: the server closes those that pipeline too much. */
function drive(burst: Burst, request: Request, end: number, took: (ms: number) => void): Promise<unknown> {
  const { hostname, port } = new URL(burst.url);
  const socket = connect(Number(port), hostname).setNoDelay(true).setEncoding("latin1");
  let [left, sentAt, tail] = [0, 0, ""];
  const send = (): void => {
    if (performance.now() >= end) return void socket.destroy();
    left = burst.pipelined;
    sentAt = performance.now();
    socket.write(Array.from({ length: left }, () => textOf(request)).join(""));
  };
  socket.on("connect", send).on("error", () => {});
  socket.on("data", (text) => {
    const received = tail + String(text);
    left -= received.split(ANSWER).length - 1;
    tail = received.slice(1 - ANSWER.length); // an answer may begin in one piece and continue in the next
    if (left > 0) return;
    took(performance.now() - sentAt);
    send();
  });
  return new Promise((resolve) => socket.on("close", resolve));
}

async function run(burst: Burst): Promise<number[]> {
  const times: number[] = [];
  const start = performance.now() + burst.warmMs;
  const end = start + burst.forMs;
  const took = (ms: number): void => {
    if (performance.now() - ms >= start) times.push(ms);
  };
  const client = async (_: unknown, i: number): Promise<void> => {
    const request = burst.requests[i % burst.requests.length] as Request;
    while (performance.now() < end) await drive(burst, request, end, took);
  };
  await Promise.all(Array.from({ length: burst.connections }, client));
  return times;
}

if (process.argv[2] === "client" && process.send) {
  process.once("message", (burst: Burst) => {
    // On a network the flood comes from another machine: here it must not take the core of the client that is measured.
    if (burst.connections > 1) setPriority(constants.priority.PRIORITY_LOW);
    void run(burst).then((times) => process.send?.(times, () => process.disconnect()));
  });
}
