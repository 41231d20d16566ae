// A small control plane for the library's tests: node:http, in memory, strictly to the specification. Tests speak to it
// through `Plane`, which the real server can implement too; only `misbehave` and `seen` are the fake's own.

import { randomBytes, randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { formatCredential } from "../../src/kernel/credentials.ts";
import type { KeyEntry } from "../../src/kernel/policy/policy.ts";
import { FakeFeed } from "./control-plane-feed.ts";
import { FakeIdempotency } from "./control-plane-idempotency.ts";
import { FakeIngest } from "./control-plane-ingest.ts";
import { FakeLimits } from "./control-plane-limits.ts";
import type { FakeResponse, RecordedRequest } from "./exchange.ts";

/** What a broken control plane does in place of an answer. */
export type InjectedFault = FakeResponse | "hang" | "drop" | undefined;

export type MintOptions = Partial<Pick<KeyEntry, "scopes" | "expires_at" | "rate_limits" | "tenant_id" | "env">>;

export class FakeControlPlane {
  readonly secretKey = formatCredential("secret_key", "live", randomBytes(24));
  readonly projectId = randomUUID();
  readonly workspaceId = randomUUID();
  readonly tenantId = randomUUID();
  readonly feed = new FakeFeed(this.workspaceId, this.projectId);
  readonly limits = new FakeLimits();
  readonly idempotency = new FakeIdempotency();
  readonly ingest = new FakeIngest();
  readonly seen: RecordedRequest[] = [];
  injectFault: (asked: RecordedRequest) => InjectedFault | Promise<InjectedFault> = () => undefined;
  #server: Server | null = null;
  #port = 0;
  readonly #events = new EventEmitter();

  static async start(): Promise<FakeControlPlane> {
    const plane = new FakeControlPlane();
    await plane.up();
    return plane;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Options for createKeyrack. */
  get options() {
    return { url: this.url, secretKey: this.secretKey, projectId: this.projectId };
  }

  mint(options: MintOptions = {}): { key: string; id: string } {
    const { env = "live" } = options;
    const key = formatCredential("api_key", env, randomBytes(24));
    const id = this.feed.upsert(key, { tenant_id: this.tenantId, ...options });
    return { key, id };
  }

  revoke(key: string): void {
    this.feed.remove(key);
  }

  async up(): Promise<void> {
    this.#server = createServer((req, res) => void this.#serve(req, res));
    this.#server.listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async down(): Promise<void> {
    const server = this.#server;
    if (!server) return;
    this.#server = null;
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.feed.stop();
    await this.down();
  }

  /** The next request whose path starts so, once it has been answered. */
  async next(path: string): Promise<RecordedRequest> {
    for (;;) {
      const [asked] = (await once(this.#events, "answered")) as [RecordedRequest];
      if (asked.path.startsWith(path)) return asked;
    }
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? "/", "http://plane");
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of req) chunks.push(chunk as Buffer);
    } catch {
      return;
    }
    const asked: RecordedRequest = {
      method: req.method ?? "GET",
      path: url.pathname,
      query: url.searchParams,
      headers: req.headers,
      body: Buffer.concat(chunks).toString(),
    };
    this.seen.push(asked);
    const wrong = await this.injectFault(asked);
    if (wrong === "hang") return;
    if (wrong === "drop") {
      req.socket.destroy();
      return;
    }
    const gone = new Promise<void>((resolve) => void res.once("close", resolve));
    this.#write(res, wrong ?? (await this.#answer(asked, gone)), asked);
  }

  #write(res: ServerResponse, told: FakeResponse, asked: RecordedRequest): void {
    const text = told.text ?? (told.json === undefined ? "" : JSON.stringify(told.json));
    res.writeHead(told.status, { "content-type": "application/json", ...told.headers });
    res.end(told.status === 304 ? undefined : text, () => this.#events.emit("answered", asked));
  }

  async #answer(asked: RecordedRequest, gone: Promise<void>): Promise<FakeResponse> {
    if (asked.headers.authorization !== `Bearer ${this.secretKey}`) {
      return { status: 401, json: { error: { code: "invalid_key", message: "Invalid API key." } } };
    }
    const [, , room, verb] = asked.path.split("/");
    if (room === "policy") return this.feed.answer(verb ?? "", asked, gone);
    const body = asked.body === "" ? {} : (JSON.parse(asked.body) as Record<string, unknown>);
    if (room === "ratelimit") return this.limits.answer(verb ?? "", body);
    if (room === "idempotency") return this.idempotency.answer(verb ?? "", body);
    if (asked.path === "/v1/ingest/batch") return this.ingest.answer(asked.body);
    return { status: 404, json: { error: { code: "not_found", message: "No such route." } } };
  }
}
