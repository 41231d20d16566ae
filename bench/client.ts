// A keep-alive HTTP client that uses less CPU than the servers it measures. It runs as a process of its own:
// `load(options)` starts it, puts one URL under load and returns the results. Loopback only.
import { fork } from "node:child_process";
import { connect, type Socket } from "node:net";

export type LoadOptions = {
  url: string;
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  connections?: number;
  /** Warm-up, not counted. */
  warmMs?: number;
  forMs?: number;
  /** Between a response and the next request of its connection: a probe that hardly adds to the load. */
  pauseMs?: number;
};

type LoadResult = {
  perSecond: number;
  requests: number;
  statuses: Record<string, number>;
  p50Ms: number;
  p99Ms: number;
};

/** Puts the URL under load from a new process, so that client and server share no event loop. */
export function load(options: LoadOptions): Promise<LoadResult> {
  if (!/^http:\/\/(127\.0\.0\.1|localhost|\[::1\])[:/]/.test(options.url)) throw new Error("loopback only");
  return new Promise((resolve, reject) => {
    const child = fork(import.meta.filename, ["client"], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
    child.once("message", (result) => {
      resolve(result as LoadResult);
      child.disconnect();
    });
    child.once("exit", (code) => code !== 0 && reject(new Error(`the client ended with ${code}`)));
    child.send(options);
  });
}

const HEADERS_END = Buffer.from("\r\n\r\n");
const LENGTH = Buffer.from("content-length: ");
const LENGTH_TITLE = Buffer.from("Content-Length: ");

function lengthIn(head: Buffer): number {
  const at = Math.max(head.indexOf(LENGTH), head.indexOf(LENGTH_TITLE));
  return at < 0 ? 0 : Number.parseInt(head.toString("latin1", at + LENGTH.length, at + LENGTH.length + 10), 10);
}

type Seen = { counting: boolean; done: number; statuses: Record<string, number>; times: number[] };

function drive(socket: Socket, request: Buffer, seen: Seen, pauseMs: number): void {
  let pending: Buffer = Buffer.alloc(0);
  let sentAt = 0;
  const send = (): void => {
    sentAt = performance.now();
    socket.write(request);
  };
  socket.setNoDelay(true);
  socket.on("connect", send);
  socket.on("data", (chunk: Buffer) => {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    const end = pending.indexOf(HEADERS_END);
    if (end < 0) return;
    const head = pending.subarray(0, end);
    if (pending.length < end + 4 + lengthIn(head)) return;
    pending = Buffer.alloc(0);
    if (seen.counting) {
      seen.done++;
      const status = head.toString("latin1", 9, 12);
      seen.statuses[status] = (seen.statuses[status] ?? 0) + 1;
      seen.times.push(performance.now() - sentAt);
    }
    if (pauseMs > 0) setTimeout(send, pauseMs);
    else send();
  });
  socket.on("error", () => {});
}

function at(sorted: number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

async function serve(options: LoadOptions): Promise<LoadResult> {
  const { url, method = "GET", headers = {}, body = "", connections = 50, warmMs = 500, forMs = 1_500 } = options;
  const { pauseMs = 0 } = options;
  const { hostname, port, pathname, search, host } = new URL(url);
  const all = { host, ...headers, ...(body && { "content-length": String(Buffer.byteLength(body)) }) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = Buffer.from(`${method} ${pathname}${search} HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
  const seen: Seen = { counting: false, done: 0, statuses: {}, times: [] };
  const sockets = Array.from({ length: connections }, () => connect(Number(port), hostname));
  for (const socket of sockets) drive(socket, request, seen, pauseMs);
  await new Promise((resolve) => setTimeout(resolve, warmMs));
  seen.counting = true;
  const start = performance.now();
  await new Promise((resolve) => setTimeout(resolve, forMs));
  const seconds = (performance.now() - start) / 1_000;
  for (const socket of sockets) socket.destroy();
  const sorted = seen.times.toSorted((a, b) => a - b);
  const { done: requests } = seen;
  return {
    perSecond: requests / seconds,
    requests,
    statuses: seen.statuses,
    p50Ms: at(sorted, 0.5),
    p99Ms: at(sorted, 0.99),
  };
}

if (process.argv[2] === "client" && process.send) {
  process.once("message", (options) => {
    void serve(options as LoadOptions).then((result) => process.send?.(result));
  });
}
