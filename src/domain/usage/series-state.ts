// The state of the usage series in this process: what exceeded a cap or was ignored, for /metrics, and the turns of readers.
import { fail } from "../../kernel/errors.ts";

export type OverflowKind = "outcome" | "route" | "tag" | "key";

/** Keys of a workspace with details in one hour. */
const KEYS_MAX = 20_000;
const READS_MAX = 8;
const READS_PER_WORKSPACE = 2;
const WAIT_MS = 2_000;

type Waiting = { workspace_id: string; start: () => void };

export class SeriesState {
  readonly overflow: Record<OverflowKind, number> = { outcome: 0, route: 0, tag: 0, key: 0 };
  /** Malformed optional fields of events. */
  readonly ignored: Record<string, number> = { cost: 0, tags: 0, network: 0, user_agent: 0 };
  keysMax = KEYS_MAX;
  readonly #running = new Map<string, number>();
  readonly #waiting: Waiting[] = [];
  #reads = 0;

  countIgnored(fields: Readonly<Record<string, number>>): void {
    for (const [field, count] of Object.entries(fields)) this.ignored[field] = (this.ignored[field] ?? 0) + count;
  }

  /** Reads of series and exports take threads, of which each workspace has a few. Further ones wait, then fail. */
  async read<T>(workspace_id: string, work: () => Promise<T>): Promise<T> {
    if (!this.#hasRoom(workspace_id)) await this.#wait(workspace_id);
    else this.#start(workspace_id);
    try {
      return await work();
    } finally {
      this.#end(workspace_id);
    }
  }

  #hasRoom(workspace_id: string): boolean {
    return this.#reads < READS_MAX && (this.#running.get(workspace_id) ?? 0) < READS_PER_WORKSPACE;
  }

  #start(workspace_id: string): void {
    this.#reads++;
    this.#running.set(workspace_id, (this.#running.get(workspace_id) ?? 0) + 1);
  }

  #wait(workspace_id: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        workspace_id,
        start: () => {
          clearTimeout(timer);
          this.#start(workspace_id);
          resolve();
        },
      };
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(fail("unavailable", { retryAfterSeconds: 1 }));
      }, WAIT_MS);
      this.#waiting.push(waiting);
    });
  }

  #end(workspace_id: string): void {
    this.#reads--;
    const left = (this.#running.get(workspace_id) ?? 1) - 1;
    if (left > 0) this.#running.set(workspace_id, left);
    else this.#running.delete(workspace_id);
    const at = this.#waiting.findIndex((each) => this.#hasRoom(each.workspace_id));
    if (at >= 0) this.#waiting.splice(at, 1)[0]?.start();
  }
}
