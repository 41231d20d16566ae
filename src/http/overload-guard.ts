// What keeps a struggling server answerable (security 6): while the event loop has lagged for five seconds, everything
// but the probes is shed with 503; a request older than thirty seconds is answered 503 whatever it still waits for.
import type { IncomingMessage, Server } from "node:http";
import type { FastResponse } from "./fast/response.ts";

const TICK_MS = 250;
const LAG_MS = 500;
const LAG_FOR_MS = 5_000;
const DEADLINE_MS = 30_000;
const PROBES = /^\/(healthz|readyz|status)(\?|$)/;

/** `late`: it was let in, and took too long. */
type Refuse = (res: FastResponse, late: boolean) => void;

/** An answer that is not yet sent, in the row of those that came before and after it. */
export type PendingResponse = {
  readonly res: FastResponse | null;
  readonly at: number;
  before: PendingResponse;
  after: PendingResponse;
};

export class OverloadGuard {
  readonly #refuse: Refuse;
  readonly #now: () => number;
  /** Both ends of the row, oldest first. Answers are kept no longer than they wait: they would outlive the young heap. */
  readonly #row = emptyRow();
  #expected: number;
  #laggingSince: number | undefined;

  constructor(refuse: Refuse, now: () => number = () => performance.now()) {
    this.#refuse = refuse;
    this.#now = now;
    this.#expected = now() + TICK_MS;
  }

  /** Ticks for as long as the server lives. */
  attach(server: Server): void {
    const timer = setInterval(() => this.tick(), TICK_MS);
    timer.unref();
    server.on("close", () => clearInterval(timer));
  }

  get shedding(): boolean {
    return this.#laggingSince !== undefined && this.#now() - this.#laggingSince >= LAG_FOR_MS;
  }

  /** True when the request was refused at the door. */
  turnsAway(req: IncomingMessage, res: FastResponse): boolean {
    if (this.shedding && !PROBES.test(req.url ?? "")) {
      this.#refuse(res, false);
      return true;
    }
    return false;
  }

  /** Its answer takes a while: it must be there before the deadline. */
  watch(res: FastResponse): PendingResponse {
    const after = this.#row;
    const { before } = after;
    const place = { res, at: this.#now(), before, after };
    before.after = place;
    after.before = place;
    return place;
  }

  /** The answer is on its way. */
  release(place: PendingResponse): void {
    place.before.after = place.after;
    place.after.before = place.before;
    place.before = place; // once more does no harm
    place.after = place;
  }

  tick(): void {
    const now = this.#now();
    if (now - this.#expected <= LAG_MS) this.#laggingSince = undefined;
    else this.#laggingSince ??= now;
    this.#expected = now + TICK_MS;
    const over: PendingResponse[] = []; // first all, then each: to refuse one may release another
    for (let place = this.#row.after; place.res; place = place.after) {
      if (now - place.at >= DEADLINE_MS || place.res.destroyed) over.push(place);
    }
    for (const place of over) {
      const { res } = place;
      if (!res || place.after === place) continue; // released meanwhile
      this.release(place);
      if (!res.headersSent && !res.destroyed) this.#refuse(res, true);
    }
  }
}

/** A row that goes round, through a place with nobody in it. */
function emptyRow(): PendingResponse {
  const row = { res: null, at: 0 } as unknown as PendingResponse;
  row.before = row;
  row.after = row;
  return row;
}
