// Reports that PostgreSQL cannot be used, and that it can again: some connections may work while others do not.
import { OutageReports, type OnOutage } from "../../fairness/outage-reports.ts";
import type { OnAttempt } from "./client.ts";

type Use = "reads" | "writes" | "notices";

export class ConnectionOutages {
  readonly #failing = new Set<Use>();
  #reports: OutageReports<unknown> | undefined;

  /** Until then nothing is reported: a start that fails ends with its error. */
  begin(onOutage: OnOutage<unknown>): void {
    this.#reports = new OutageReports(onOutage);
  }

  /** Takes the result of each attempt to get a connection for this use, and that one works. */
  attempts(use: Use): OnAttempt {
    return (error) => {
      if (error !== undefined) this.#fails(use, error);
      else if (this.#failing.size > 0) this.#works(use);
    };
  }

  #fails(use: Use, error: unknown): void {
    this.#failing.add(use);
    this.#reports?.failed(error);
  }

  #works(use: Use): void {
    this.#failing.delete(use);
    if (this.#failing.size === 0) this.#reports?.recovered();
  }
}
