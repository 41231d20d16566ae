// A fake control plane for the SDK's tests: node:http, in memory, strict about its input.
// test/sdk/server-features.test.ts verifies the same behaviour with a real server.

import { randomBytes, randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { formatCredential } from "../../src/kernel/credentials.ts";
import type { KeyEntry } from "./policy-fixtures.ts";
import { FakeFeed } from "./control-plane-feed.ts";
import { FakeIdempotency } from "./control-plane-idempotency.ts";
import { FakeIngest } from "./control-plane-ingest.ts";
import { FakeLimits } from "./control-plane-limits.ts";
import type { FakeResponse, RecordedRequest } from "./exchange.ts";

/**
 * The behaviour of a broken control plane in place of a response. `lose`: it does what is asked, and the response is
 * lost.
 */
export type InjectedFault = FakeResponse | "hang" | "drop" | "lose" | undefined;

type MintOptions = Partial<
  Pick<
    KeyEntry,
    "scopes" | "expires_at" | "rate_limits" | "tenant_id" | "env" | "disabled" | "metered" | "allowed_cidrs" | "ip_mode"
  >
>;

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
  injectFault: (request: RecordedRequest) => InjectedFault | Promise<InjectedFault> = () => undefined;
  #server: Server | null = null;
  #isDown = false;
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
    this.#isDown = false;
    if (this.#server) return;
    const server = createServer((req, res) => void this.#serve(req, res));
    server.on("connection", (socket) => this.#isDown && socket.resetAndDestroy());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
  }

  /** Resets connections until `up`. Keeps its port: another program could take it meanwhile. */
  async down(): Promise<void> {
    this.#isDown = true;
    this.#server?.closeAllConnections();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.feed.stop();
    const server = this.#server;
    if (!server) return;
    this.#server = null;
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  }

  /** The next request whose path has this prefix, once it has a response. */
  async next(path: string): Promise<RecordedRequest> {
    for (;;) {
      const [request] = (await once(this.#events, "responded")) as [RecordedRequest];
      if (request.path.startsWith(path)) return request;
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
    const request: RecordedRequest = {
      method: req.method ?? "GET",
      path: url.pathname,
      query: url.searchParams,
      headers: req.headers,
      body: Buffer.concat(chunks).toString(),
    };
    this.seen.push(request);
    const fault = await this.injectFault(request);
    if (fault === "hang") return;
    if (fault === "drop") {
      req.socket.destroy();
      return;
    }
    const closed = new Promise<void>((resolve) => void res.once("close", resolve));
    if (fault === "lose") {
      await this.#respond(request, closed);
      req.socket.destroy();
      return;
    }
    this.#write(res, fault ?? (await this.#respond(request, closed)), request);
  }

  #write(res: ServerResponse, response: FakeResponse, request: RecordedRequest): void {
    const text = response.text ?? (response.json === undefined ? "" : JSON.stringify(response.json));
    res.sendDate = false; // the library compares it with its own clock, which tests set
    res.writeHead(response.status, { "content-type": "application/json", ...response.headers });
    res.end(response.status === 304 ? undefined : text, () => this.#events.emit("responded", request));
  }

  async #respond(request: RecordedRequest, closed: Promise<void>): Promise<FakeResponse> {
    if (request.headers.authorization !== `Bearer ${this.secretKey}`) {
      return { status: 401, json: { error: { code: "invalid_key", message: "Invalid API key." } } };
    }
    const [, , resource, verb] = request.path.split("/");
    if (resource === "policy") return this.feed.respond(verb ?? "", request, closed);
    const body = request.body === "" ? {} : (JSON.parse(request.body) as Record<string, unknown>);
    if (resource === "ratelimit") return this.limits.respond(verb ?? "", body);
    if (resource === "idempotency") return this.idempotency.respond(verb ?? "", body);
    if (request.path === "/v1/ingest/batch") return this.ingest.respond(request.body);
    return { status: 404, json: { error: { code: "not_found", message: "No such route." } } };
  }
}
