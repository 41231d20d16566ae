// Nodes of the library in the campaign on quotas. They refuse requests that they cannot charge, so none of theirs is
// owed.
import { setTimeout as sleep } from "node:timers/promises";
import { patientPorts } from "../harness/sdk/ports.ts";
import type { Keyrack } from "../src/sdk/instance.ts";
import { internalsOf } from "../src/sdk/internals.ts";
import { createKeyrackWith } from "../src/sdk/keyrack.ts";
import { REFUSALS, RETRY_MS, TRIES_MAX, type QuotaLog } from "./quota-load.ts";

/** A policy that grows stale while a process is down still decides. */
const STALE_MS = 3_600_000;

export class QuotaNode {
  readonly #keyrack: Keyrack;
  readonly #log: QuotaLog;

  private constructor(keyrack: Keyrack, log: QuotaLog) {
    this.#keyrack = keyrack;
    this.#log = log;
  }

  static async start(url: string, secretKey: string, projectId: string, log: QuotaLog): Promise<QuotaNode> {
    const options = { url, secretKey, projectId, staleMs: STALE_MS, log: () => {} };
    const keyrack = createKeyrackWith({ ...options, quotaFailMode: "closed" }, patientPorts()) as Keyrack;
    await keyrack.ready();
    return new QuotaNode(keyrack, log);
  }

  /** Up to `calls` requests of a key; fewer where its quota is used up. */
  async run(key: string, calls: number): Promise<void> {
    const guard = internalsOf(this.#keyrack).guard({ limits: "lease" });
    const incoming = { method: "GET", path: "/", authorization: `Bearer ${key}`, apiKey: null };
    for (let i = 0, refusals = 0, down = 0; i < calls && refusals < REFUSALS; i++) {
      const { denial } = await guard.admit(null, incoming);
      refusals = denial?.status === 429 ? refusals + 1 : 0;
      down = denial?.status === 503 ? down + 1 : 0;
      if (denial === null) this.#log.admit(1);
      else if (![429, 503].includes(denial.status) || down > TRIES_MAX)
        throw new Error(`a node refused with ${denial.status}: ${denial.body}`);
      // Of the requests in a row that no process answers only the first may have been charged.
      if (down === 1) this.#log.uncertain++;
      if (denial !== null) await sleep(RETRY_MS);
    }
  }

  close(): Promise<void> {
    return this.#keyrack.close();
  }
}
