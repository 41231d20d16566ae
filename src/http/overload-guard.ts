// Overload shedding and the request deadline. While the event loop has lagged for five seconds, every request except
// the probes gets 503; a request that has no response after thirty seconds gets 503 whatever it still waits for.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { fail } from "../kernel/errors.ts";
import { LinkedList, type ListNode } from "../kernel/linked-list.ts";
import { discardResponse, failureResponse, type HttpResponse, type Respond } from "./response.ts";

const TICK_MS = 250;
const LAG_MS = 500;
const LAG_FOR_MS = 5_000;
const DEADLINE_MS = 30_000;
const PROBES = /^\/(healthz|readyz|status)(\?|$)/;

export function isProbe({ url = "" }: IncomingMessage): boolean {
  return PROBES.test(url);
}

type PendingResponse = { readonly res: ServerResponse; readonly respond: Respond; readonly since: number };
type PendingNode = ListNode<PendingResponse>;

export type Finish = (req: IncomingMessage, response: HttpResponse) => Promise<HttpResponse>;

export class OverloadGuard {
  readonly #now: () => number;
  readonly #finish: Finish;
  /** Requests that have no response yet, oldest first. bench: parts/get-by-id */
  readonly #pending = new LinkedList<PendingResponse>();
  #expected: number;
  #laggingSince: number | undefined;

  /** `finish` adds the headers that the request's plane needs to a refusal. */
  constructor(now: () => number = () => performance.now(), finish: Finish = async (_req, response) => response) {
    this.#now = now;
    this.#finish = finish;
    this.#expected = now() + TICK_MS;
  }

  /** Ticks until the server closes. */
  attach(server: Server): void {
    const timer = setInterval(() => this.tick(), TICK_MS);
    timer.unref();
    server.on("close", () => clearInterval(timer));
  }

  get shedding(): boolean {
    return this.#laggingSince !== undefined && this.#now() - this.#laggingSince >= LAG_FOR_MS;
  }

  sheds(req: IncomingMessage): boolean {
    return this.shedding && !isProbe(req);
  }

  /** Starts work that responds, now or later; `send` gets its first response, or a refusal at the deadline. */
  serve(res: ServerResponse, start: (respond: Respond) => void, send: Respond): void {
    let sent = false;
    let pending: PendingNode | undefined;
    const respond = (response: HttpResponse): void => {
      if (sent) return discardResponse(response);
      sent = true;
      if (pending) this.release(pending);
      send(response);
    };
    start(respond);
    if (!sent) pending = this.watch(res, respond);
  }

  watch(res: ServerResponse, respond: Respond): PendingNode {
    return this.#pending.append({ res, respond, since: this.#now() });
  }

  /** May be called more than once. */
  release(pending: PendingNode): void {
    this.#pending.remove(pending);
  }

  tick(): void {
    const now = this.#now();
    if (now - this.#expected <= LAG_MS) this.#laggingSince = undefined;
    else this.#laggingSince ??= now;
    this.#expected = now + TICK_MS;
    for (const node of this.#pending.nodes()) {
      const { since, res } = node.item;
      if (now - since < DEADLINE_MS && !res.destroyed) continue;
      this.release(node);
      void this.#refuse(node.item);
    }
  }

  async #refuse({ res, respond }: PendingResponse): Promise<void> {
    const response = await this.#finish(res.req, tooLate(res));
    if (!res.headersSent && !res.destroyed) respond(response);
  }
}

/** Closes the connection if the body is still arriving: the remainder must not be parsed as a request. */
function tooLate({ req }: ServerResponse): HttpResponse {
  const extra = req.complete ? {} : { headers: { connection: "close" } };
  return failureResponse(fail("overloaded", extra));
}
