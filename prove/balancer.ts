// A load balancer for campaigns that replace processes: each request goes to the next process that is not being
// replaced, and every answer that a client must not get is reported.
import { send, type Call, type Reply } from "../harness/processes/send.ts";
import type { Running } from "../harness/processes/server.ts";

export type Slot = {
  name: string;
  port: number;
  dir: string;
  /** Undefined while nothing listens. */
  server: Running | undefined;
  /** Between SIGTERM and its end: it may refuse what arrives. */
  stopping: boolean;
};

export class Balancer {
  requests = 0;
  refusedWhileStopping = 0;
  readonly #slots: readonly Slot[];
  readonly #report: (what: string) => void;

  constructor(slots: readonly Slot[], report: (what: string) => void) {
    this.#slots = slots;
    this.#report = report;
  }

  readonly call: Call = async (bearer, route, body, options) => {
    const slot = this.#next();
    const { server } = slot;
    if (!server) throw new TypeError("fetch failed"); // no process at all
    try {
      const reply = await send(server.ready.url, bearer, route, body, options);
      this.#judge(slot, route, reply);
      return reply;
    } catch (error) {
      // A process that stops closes its connections; a client may have written to one at that moment.
      if (slot.server === server && !slot.stopping) this.#report(`${slot.name} closed the connection of ${route}`);
      throw error;
    }
  };

  /** The process that stops still gets requests, as a balancer notices late. */
  #next(): Slot {
    const up = this.#slots.filter(({ server }) => server !== undefined);
    return (up[this.requests++ % up.length] ?? this.#slots[0]) as Slot;
  }

  #judge(slot: Slot, route: string, { status, text }: Reply): void {
    if (status < 500) return;
    if (status === 503 && slot.stopping) this.refusedWhileStopping++;
    else this.#report(`${route} on ${slot.name}: ${status} ${text}`);
  }
}
