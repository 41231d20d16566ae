// A campaign tries to break one promise. Round n of a run with seed S uses seed S + n - 1, so a failed round is
// repeated alone with its own seed, and a stopped run continues with the seed after the last one done.
import type { Scratch } from "../harness/databases/scratch.ts";
import { BIN } from "../harness/processes/server.ts";

/** What a campaign runs on; counters and claims may be outside a database. */
export type Backend = "sqlite" | "postgres" | "memory" | "redis";
export type RunOptions = {
  rounds: number;
  seed: number;
  backend: Backend;
  /** A database on the backend; SQLite when the backend is not a database. */
  scratch: Scratch;
  /** Only for campaigns that run for a time rather than a number of rounds. */
  minutes?: number;
  /** The launcher or binary of an older version, for campaigns about upgrades; this checkout's if not given. */
  from?: string;
  print?: (line: string) => void;
  /** Ends the run after the current round; the report covers what was done. */
  stop?: AbortSignal;
};
type Failed = { seed: number; what: string };

/** The result of a run, of the same shape for every campaign. */
export type Report = {
  campaign: string;
  promise: string;
  backend: Backend;
  seed: number;
  rounds: number;
  date: string;
  seconds: number;
  figures: Record<string, number | string>;
  failures: Failed[];
  /** Why nothing was run: a requirement is missing. */
  skipped?: string;
};

export type Campaign = {
  name: string;
  /** The promises of docs/reliability.md it tries to break. */
  promise: string;
  /** The property that must hold, in one sentence. */
  claim: string;
  /** Rounds of the long run, and what a round is. */
  rounds: number;
  round: string;
  backends: readonly Backend[];
  run(options: Required<RunOptions>, tally: Tally): Promise<void>;
};

const FAILURES_MAX = 20;

/** Collects figures and failures while a campaign runs. */
export class Tally {
  readonly figures: Record<string, number | string> = {};
  readonly failures: Failed[] = [];
  skipped: string | undefined;
  rounds = 0;
  readonly #print: (line: string) => void;

  constructor(print: (line: string) => void) {
    this.#print = print;
  }

  count(name: string, by = 1): void {
    this.figures[name] = Number(this.figures[name] ?? 0) + by;
  }

  most(name: string, value: number): void {
    this.figures[name] = Math.max(Number(this.figures[name] ?? 0), Math.round(value * 100) / 100);
  }

  failed(seed: number, what: string): void {
    this.#print(`FAILED with seed ${seed}: ${what}`);
    if (this.failures.length < FAILURES_MAX) this.failures.push({ seed, what });
  }

  /** Too many failures: more would only hide the first. */
  get hopeless(): boolean {
    return this.failures.length >= FAILURES_MAX;
  }
}

/** Seeds of a run's rounds; stops early after too many failures, or when `stop` is aborted. */
export function* rounds(
  { rounds, seed, stop }: Pick<RunOptions, "rounds" | "seed" | "stop">,
  tally: Tally,
): Generator<number> {
  for (let i = 0; i < rounds && !tally.hopeless; i++) {
    if (stop?.aborted) return;
    yield seed + i;
    tally.rounds++;
  }
}

export async function runCampaign(campaign: Campaign, options: RunOptions): Promise<Report> {
  const { print = () => {}, minutes = 1, from = BIN, stop = new AbortController().signal } = options;
  const tally = new Tally(print);
  const started = performance.now();
  const { name, promise } = campaign;
  const date = new Date().toISOString().slice(0, 10);
  try {
    await campaign.run({ ...options, print, minutes, from, stop }, tally);
  } catch (error) {
    tally.failed(options.seed + tally.rounds, `the campaign itself failed: ${(error as Error).stack}`);
  }
  const { figures, failures, skipped } = tally;
  return {
    campaign: name,
    promise,
    backend: options.backend,
    seed: options.seed,
    rounds: tally.rounds,
    date,
    seconds: Math.round((performance.now() - started) / 1000),
    figures,
    failures,
    ...(skipped !== undefined && { skipped }),
  };
}
