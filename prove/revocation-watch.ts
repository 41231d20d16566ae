// Verifier nodes that poll one process each, and a client that mints keys and revokes them with wait=true: once the
// response says that every node has the revocation, no node may admit the key.
import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../harness/instances/world.ts";
import { createKeyrack } from "../src/sdk/index.ts";
import type { Slot } from "./balancer.ts";

type Node = ReturnType<typeof createKeyrack>;

const POLL_MS = 5;
const KNOWN_WITHIN_MS = 1_000;
const FOLLOWED_WITHIN_MS = 120_000;

export class RevocationWatch {
  /** Revocations that every node had acknowledged. */
  receipts = 0;
  readonly #nodes: Node[];
  readonly #world: World;
  readonly #report: (what: string) => void;
  /** Revoked, whether every node had acknowledged it or not. */
  readonly #revoked: string[] = [];

  private constructor(nodes: Node[], world: World, report: (what: string) => void) {
    this.#nodes = nodes;
    this.#world = world;
    this.#report = report;
  }

  static async open(slots: readonly Slot[], world: World, report: (what: string) => void): Promise<RevocationWatch> {
    const nodes = slots.map(({ name, port }) =>
      createKeyrack({
        url: `http://127.0.0.1:${port}`,
        secretKey: world.key,
        projectId: world.project_id,
        nodeId: `node-${name}`,
        log: () => {},
      }),
    );
    await Promise.all(nodes.map((node) => node.ready()));
    return new RevocationWatch(nodes, world, report);
  }

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) await this.#revokeOne(stop).catch(() => sleep(POLL_MS));
  }

  async #revokeOne(stop: AbortSignal): Promise<void> {
    const { call, key: bearer, project_id, tenant_id } = this.#world;
    const { status, body } = await call(bearer, "POST /v1/keys", { project_id, tenant_id, env: "live" });
    if (status !== 201) return;
    const { id, key } = body as { id: string; key: string };
    await this.#until(() => this.#admitting(key) === this.#nodes.length, KNOWN_WITHIN_MS, stop);
    const reply = await call(bearer, `POST /v1/keys/${id}/revoke?wait=true`, {});
    if (reply.status !== 200) return;
    this.#revoked.push(key);
    if (!reply.body.propagation.complete) return; // a node whose process is being replaced cannot know yet
    this.receipts++;
    const admitting = this.#admitting(key);
    if (admitting > 0) this.#report(`${admitting} nodes admit a key after the receipt of its revocation`);
  }

  #admitting(key: string): number {
    return this.#nodes.filter((node) => node.verify(key).ok).length;
  }

  async #until(holds: () => boolean, withinMs: number, stop?: AbortSignal): Promise<boolean> {
    for (const giveUp = performance.now() + withinMs; performance.now() < giveUp; ) {
      if (holds() || stop?.aborted) break;
      await sleep(POLL_MS);
    }
    return holds();
  }

  /** Waits for more receipts: every node is connected and follows. */
  async follow(more: number): Promise<void> {
    const wanted = this.receipts + more;
    if (!(await this.#until(() => this.receipts >= wanted, FOLLOWED_WITHIN_MS)))
      this.#report(`no ${more} revocations were acknowledged by every node within ${FOLLOWED_WITHIN_MS} ms`);
  }

  /** After the last replacement every node refuses every revoked key. */
  async settled(withinMs: number): Promise<void> {
    const refused = (): boolean => this.#revoked.every((key) => this.#admitting(key) === 0);
    if (!(await this.#until(refused, withinMs))) this.#report("a node still admits a revoked key");
  }

  async close(): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.close()));
  }
}
