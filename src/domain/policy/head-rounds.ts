// Reads project heads in rounds: one statement at a time, for every project asked for. A poll must see each revocation
// that was acknowledged before it arrived, whichever process wrote it; so it joins the first round that begins after
// it. No head is kept between rounds, so nothing depends on a clock or on a notification of another process. bench:
// fleet/unchanged-poll
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { HeadRow } from "../../store/queries/policy.ts";

type Round = { readonly ids: Set<string>; readonly heads: Promise<ReadonlyMap<string, HeadRow>> };

export class HeadRounds {
  /** Statements run, for /metrics. */
  count = 0;
  readonly #read: (ids: string[]) => Promise<HeadRow[]>;
  /** The round that has not begun. */
  #next: Round | undefined;
  /** Settles, without an error, when the statement in flight has ended. */
  #inFlight: Promise<void> | undefined;

  constructor(read: (ids: string[]) => Promise<HeadRow[]>) {
    this.#read = read;
  }

  async read(project_id: string): Promise<HeadRow | undefined> {
    const round = (this.#next ??= this.#announce());
    round.ids.add(project_id);
    return (await round.heads).get(project_id);
  }

  #announce(): Round {
    const ids = new Set<string>();
    return { ids, heads: this.#run(ids) };
  }

  async #run(ids: Set<string>): Promise<ReadonlyMap<string, HeadRow>> {
    await (this.#inFlight ?? yieldToEventLoop()); // what arrives until then shares the statement
    this.#next = undefined;
    this.count++;
    const reading = this.#read([...ids]);
    const ended = reading.then(
      () => {},
      () => {},
    );
    this.#inFlight = ended;
    try {
      return new Map((await reading).map((row) => [row.id, row]));
    } finally {
      if (this.#inFlight === ended) this.#inFlight = undefined;
    }
  }
}
