// A node in a long poll, for benchmarks that need thousands of them.
import { once } from "node:events";
import { connect, type Socket } from "node:net";

const WAIT_MS = 25_000;
const CONNECT_AT_A_TIME = 50;

export type FleetServer = { url: string; secret_key: string; project_id: string };

/** A node over a bare socket: it costs the machine less than the server that is measured. */
export class WaitingNode {
  /** When its newest version arrived. */
  arrivedAt = 0;
  /** Why its connection ended. */
  failure: Error | undefined;
  version: number;
  readonly #socket: Socket;
  readonly #request: (since: number, waitMs: number) => string;
  #pending = "";
  #onFirst = (): void => {};

  constructor({ url, secret_key, project_id }: FleetServer, name: string, version: number) {
    const { hostname, port, host } = new URL(url);
    const head = `HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${secret_key}\r\n\r\n`;
    const path = `/v1/policy/delta?project_id=${project_id}&node=${name}`;
    this.version = version;
    this.#request = (since, waitMs) => `GET ${path}&since=${since}&wait_ms=${waitMs} ${head}`;
    this.#socket = connect(Number(port), hostname);
    this.#socket.setNoDelay(true);
    this.#socket.on("error", (error) => (this.failure = error));
    this.#socket.on("data", (chunk) => this.#read(chunk.toString("latin1")));
  }

  /** Resolves once the server has answered: the kernel accepts connections sooner, and more than it can hand over. */
  async connected(): Promise<void> {
    await once(this.#socket, "connect");
    this.#socket.write(this.#request(this.version, 0));
    await new Promise<void>((resolve) => (this.#onFirst = resolve));
  }

  end(): void {
    this.#socket.destroy();
  }

  #poll(): void {
    this.#socket.write(this.#request(this.version, WAIT_MS));
  }

  #read(text: string): void {
    this.#pending += text;
    const end = this.#pending.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(/content-length: (\d+)/.exec(this.#pending)?.[1] ?? 0);
    if (this.#pending.length < end + 4 + length) return;
    if (!/^HTTP\/1\.1 (200|304) /.test(this.#pending)) throw new Error(`a poll was answered: ${this.#pending}`);
    this.version = Number(/"version":(\d+)/.exec(this.#pending)?.[1] ?? this.version);
    this.#pending = "";
    this.arrivedAt = performance.now();
    this.#poll(); // acknowledges
    this.#onFirst();
  }
}

/** Adds nodes that hold `version` until there are `size`, a few at a time. */
export async function addNodes(
  nodes: WaitingNode[],
  size: number,
  server: FleetServer,
  version: number,
): Promise<void> {
  while (nodes.length < size) {
    const some = Array.from({ length: CONNECT_AT_A_TIME }, (_, i) => {
      return new WaitingNode(server, `n${nodes.length + i}`, version);
    });
    nodes.push(...some);
    await Promise.all(some.map((node) => node.connected()));
  }
}
