// A campaign tries to break one promise. Round n of a run with seed S uses seed S + n - 1, so a failed round is
// replayed alone by its own seed, and a run that was stopped goes on with the seed behind the last one done.
import type { Scratch } from "../harness/databases/scratch.ts";

/** What a campaign runs on; counters and claims may live outside a database. */
export type Backend = "sqlite" | "postgres" | "memory" | "redis";
export type RunOptions = {
  rounds: number;
  seed: number;
  backend: Backend;
  /** A database on the backend, or on SQLite where the backend is none. */
  scratch: Scratch;
  /** Only for campaigns that last a time rather than a number of rounds. */
  minutes?: number;
  say?: (line: string) => void;
  /** Ends the run after the round at hand; its report tells what was done. */
  stop?: AbortSignal;
};
export type Failed = { seed: number; what: string };

/** What a run found, in the same shape for every campaign. */
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
  /** Why nothing was run, where something it needs is missing. */
  skipped?: string;
};

export type Campaign = {
  name: string;
  /** The promises of docs/reliability.md it tries to break. */
  promise: string;
  /** What must hold, in one sentence. */
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
  readonly #say: (line: string) => void;

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  count(name: string, by = 1): void {
    this.figures[name] = Number(this.figures[name] ?? 0) + by;
  }

  most(name: string, value: number): void {
    this.figures[name] = Math.max(Number(this.figures[name] ?? 0), Math.round(value * 100) / 100);
  }

  failed(seed: number, what: string): void {
    this.#say(`FAILED with seed ${seed}: ${what}`);
    if (this.failures.length < FAILURES_MAX) this.failures.push({ seed, what });
  }

  /** Enough is known: more failures would only hide the first. */
  get hopeless(): boolean {
    return this.failures.length >= FAILURES_MAX;
  }
}

/** Seeds of a run's rounds; stops early when it is hopeless, or when somebody asked it to. */
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
  const { say = () => {}, minutes = 1, stop = new AbortController().signal } = options;
  const tally = new Tally(say);
  const started = performance.now();
  const { name, promise } = campaign;
  const date = new Date().toISOString().slice(0, 10);
  try {
    await campaign.run({ ...options, say, minutes, stop }, tally);
  } catch (error) {
    tally.failed(options.seed + tally.rounds, `the campaign itself broke: ${(error as Error).stack}`);
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
