// The load of the campaign on quotas: checks, leases, returns and grants on one key, with an exact log of the
// responses.
import { setTimeout as sleep } from "node:timers/promises";
import { send, type Reply } from "../harness/processes/send.ts";
import type { Running } from "../harness/processes/server.ts";
import type { Random } from "../harness/random.ts";

const COST_MAX = 3;
const WANT_MAX = 20;
const GRANT_MAX = 40;
/**
 * After a refused connection: the process is being started again. After a refusal: another process may give units back.
 */
export const RETRY_MS = 20;
/** In a row, after which a quota counts as used up. */
export const REFUSALS = 3;
/** A process that is not back after as many is not started again. */
export const TRIES_MAX = 3_000;

/** What the responses said. Units of calls without a response are uncertain: charged or not. */
export class QuotaLog {
  /** By checks, and by leases less what was not used. */
  admitted = 0;
  /** As the server has to count: a lease's units are spent but for those that it took back. */
  charged = 0;
  uncertain = 0;
  readonly grants = new Map<string, number>();

  admit(units: number): void {
    this.admitted += units;
    this.charged += units;
  }

  get granted(): number {
    return [...this.grants.values()].reduce((sum, units) => sum + units, 0);
  }
}

/** What is charged: a key, and its tenant. */
export type Target = { project_id: string; tenant_id: string; key_id: string };

export class QuotaClient {
  readonly #servers: readonly Running[];
  readonly #bearer: string;
  readonly #target: Target;
  readonly #random: Random;
  readonly #log: QuotaLog;

  /** The servers may be replaced by others while it runs. */
  constructor(servers: readonly Running[], bearer: string, target: Target, random: Random, log: QuotaLog) {
    this.#servers = servers;
    this.#bearer = bearer;
    this.#target = target;
    this.#random = random;
    this.#log = log;
  }

  async run(name: string, calls: number): Promise<void> {
    for (let i = 0; i < calls; i++) {
      const kind = this.#random.int(0, 9);
      if (kind === 0) await this.#grant(`${name}-${i}`);
      else if (kind <= 3) await this.#lease();
      else await this.#check();
    }
  }

  /** One unit after the other, until the quota is used up. */
  async useUp(): Promise<void> {
    for (let refusals = 0; refusals < REFUSALS; ) {
      const isRefused = (await this.#check(1)) === false;
      refusals = isRefused ? refusals + 1 : 0;
      if (isRefused) await sleep(RETRY_MS);
    }
  }

  /** Whether it was admitted; null without a response. */
  async #check(cost = this.#random.int(1, COST_MAX)): Promise<boolean | null> {
    const body = await this.#call("POST /v1/ratelimit/check", { ...this.#subject, cost });
    if (body === null) this.#log.uncertain += cost;
    else if (body.allowed) this.#log.admit(cost);
    return body && body.allowed;
  }

  async #lease(): Promise<void> {
    const want = this.#random.int(1, WANT_MAX);
    const lease = await this.#call("POST /v1/ratelimit/lease", { ...this.#subject, want });
    if (lease === null) this.#log.uncertain += want;
    if (lease === null || lease.granted === 0) return;
    const unused = this.#random.int(0, lease.granted);
    this.#log.admitted += lease.granted - unused;
    this.#log.charged += lease.granted;
    const { lease_id } = lease;
    // To any process: one that did not grant the lease takes nothing back.
    const returned = await this.#call("POST /v1/ratelimit/return", { lease_id, unused });
    if (returned === null) this.#log.uncertain += unused;
    else this.#log.charged -= returned.returned;
  }

  /** Sent until it is acknowledged, as a payment provider does. */
  async #grant(reference: string): Promise<void> {
    const units = this.#random.int(1, GRANT_MAX);
    const route = `POST /v1/tenants/${this.#target.tenant_id}/quotas/shared/grants`;
    while ((await this.#call(route, { units, reference })) === null);
    this.#log.grants.set(reference, units);
  }

  get #subject() {
    return { ...this.#target, env: "live", limits: [], quotas: true };
  }

  /** Null without a response: the call may have been charged. One that no process has taken is sent again. */
  async #call(route: string, body: object): Promise<Reply["body"]> {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const { url } = this.#random.pick(this.#servers).ready;
      const reply = await send(url, this.#bearer, route, body).catch((error: NodeJS.ErrnoException) => error);
      if (!(reply instanceof Error) && reply.status < 300) return reply.body;
      if (!(reply instanceof Error) && reply.status !== 503)
        throw new Error(`refused with ${reply.status}: ${reply.text}`);
      await sleep(RETRY_MS);
      if (!(reply instanceof Error) || reply.code !== "ECONNREFUSED") return null;
    }
    throw new Error("no process listens");
  }
}
