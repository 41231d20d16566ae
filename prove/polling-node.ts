// A node of the campaign `processes`: it follows the feed of one process over HTTP.
import { setTimeout as sleep } from "node:timers/promises";
import { send, type Reply } from "../harness/processes/send.ts";
import type { World } from "../harness/instances/world.ts";

/** Between polls of a node that does not wait, or was refused. */
const INTERVAL_MS = 10;

export type Report = (what: string) => void;
/** `intervalMs`: between its polls if they do not wait. */
type NodeOptions = { name: string; waitMs: number; intervalMs?: number };
/** When the response to each revocation arrived, by key. */
export type Revoked = Map<string, number>;

/** A node that polls one process, waiting or at an interval, and holds the keys of its responses. */
export class PollingNode {
  readonly keys = new Set<string>();
  version = 0;
  /** Whether a process has confirmed or sent what it holds. */
  isAnswered = false;
  readonly #poll: (since: number) => Promise<Reply>;
  readonly #revoked: Revoked;
  readonly #report: Report;

  readonly #waitMs: number;
  readonly #intervalMs: number;

  constructor(
    url: string,
    world: World,
    { name, waitMs, intervalMs = INTERVAL_MS }: NodeOptions,
    revoked: Revoked,
    report: Report,
  ) {
    this.#waitMs = waitMs;
    this.#intervalMs = intervalMs;
    const feed = `project_id=${world.project_id}&node=${name}`;
    this.#poll = (since) =>
      send(
        url,
        world.key,
        since === 0
          ? `GET /v1/policy/snapshot?${feed}`
          : `GET /v1/policy/delta?${feed}&since=${since}&wait_ms=${waitMs}`,
      );
    this.#revoked = revoked;
    this.#report = report;
  }

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const sentAt = performance.now();
      const { status, body } = await this.#poll(this.version);
      if (status === 503) {
        // On a busy machine a process may refuse to answer: the node has learnt nothing, and asks again.
        await sleep(INTERVAL_MS);
        continue;
      }
      this.isAnswered = true;
      if (status === 200) this.#apply(body);
      else if (status !== 304) this.#report(`a poll was answered with ${status}`);
      for (const [id, revokedAt] of this.#revoked)
        if (sentAt > revokedAt && this.keys.has(id))
          this.#report("a node that polled after a revocation holds the key");
      if (this.#waitMs === 0) await sleep(this.#intervalMs);
    }
  }

  #apply(body: Reply["body"]): void {
    this.version = body.version;
    for (const { key_id } of body.keys ?? []) this.keys.add(key_id);
    for (const { change, key_id } of body.changes ?? []) {
      if (change === "upsert") this.keys.add(key_id);
      else this.keys.delete(key_id);
    }
  }
}
