// What keeps a struggling server answerable (security 6): while the event loop has lagged for five seconds, everything
// but the probes is shed with 503; a request older than thirty seconds is answered 503 whatever it still waits for.
import type { IncomingMessage, Server, ServerResponse } from "node:http";

const TICK_MS = 250;
const LAG_MS = 500;
const LAG_FOR_MS = 5_000;
const DEADLINE_MS = 30_000;
const PROBES = /^\/(healthz|readyz|status)(\?|$)/;

type Watched = { res: ServerResponse; at: number };

export class Guard {
  readonly #refuse: (res: ServerResponse) => void;
  readonly #now: () => number;
  #watched: Watched[] = [];
  #expected: number;
  #laggingSince: number | undefined;

  constructor(refuse: (res: ServerResponse) => void, now: () => number = () => performance.now()) {
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
      this.#refuse(res);
      return true;
    }
    this.#watched.push({ res, at: this.#now() });
    return false;
  }

  tick(): void {
    const now = this.#now();
    if (now - this.#expected <= LAG_MS) this.#laggingSince = undefined;
    else this.#laggingSince ??= now;
    this.#expected = now + TICK_MS;
    this.#watched = this.#watched.filter(({ res, at }) => {
      if (res.headersSent || res.destroyed) return false;
      if (now - at < DEADLINE_MS) return true;
      this.#refuse(res);
      return false;
    });
  }
}
