// What keeps a struggling server answerable (security 6): while the event loop has lagged for five seconds, everything
// but the probes is shed with 503; a request older than thirty seconds is answered 503 whatever it still waits for.
import type { IncomingMessage, Server, ServerResponse } from "node:http";

const TICK_MS = 250;
const LAG_MS = 500;
const LAG_FOR_MS = 5_000;
const DEADLINE_MS = 30_000;
const PROBES = /^\/(healthz|readyz|status)(\?|$)/;

/** `late`: it was let in, and took too long. */
type Refuse = (res: ServerResponse, late: boolean) => void;

export class Guard {
  readonly #refuse: Refuse;
  readonly #now: () => number;
  /** Answers not yet sent, by when their request came. Kept no longer: a held answer would outlive the young heap. */
  readonly #watched = new Map<ServerResponse, number>();
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
  turnsAway(req: IncomingMessage, res: ServerResponse): boolean {
    if (this.shedding && !PROBES.test(req.url ?? "")) {
      this.#refuse(res, false);
      return true;
    }
    return false;
  }

  /** Its answer takes a while: it must be there before the deadline. */
  watch(res: ServerResponse): void {
    this.#watched.set(res, this.#now());
  }

  /** The answer is on its way. */
  release(res: ServerResponse): void {
    this.#watched.delete(res);
  }

  tick(): void {
    const now = this.#now();
    if (now - this.#expected <= LAG_MS) this.#laggingSince = undefined;
    else this.#laggingSince ??= now;
    this.#expected = now + TICK_MS;
    for (const [res, at] of this.#watched) {
      const late = now - at >= DEADLINE_MS;
      if (late && !res.headersSent && !res.destroyed) this.#refuse(res, true);
      if (late || res.destroyed) this.#watched.delete(res);
    }
  }
}
