// The journal of counted batches: what its rows hold, and how a batch is divided into rows.
import type { Env } from "../../kernel/credentials.ts";

/** Sums in one row of the journal. Each becomes three to six rows of the rollups. */
const ROW_SUMS_MAX = 250;
/** What a shard should hold, with room for those that get more. */
const SHARD_SUMS = 180;
/** Two hexadecimal digits. */
const SHARDS_MAX = 256;

/**
 * The data of a journal row. Texts are indexes into `texts`; -1 means none. Flat lists, because they are parsed fast:
 * `owners` has tenant, key, requests, errors and units of one after the other.
 */
export type JournalData = {
  texts: string[];
  slices: JournalSlice[];
  /**
   * Where the row's shard begins, from 0 to 1. The keys of a large batch are in shards by their ids: rows of the same
   * shard change the same rollups, so they are added in one transaction. bench: ingest/series
   */
  shard: number;
};
type JournalSlice = { minute: number; outcome: number; places: JournalPlace[] };
export type JournalPlace = {
  project: number;
  env: number;
  owners: number[];
  /** Each: route, requests, errors, units, then bins and their counts. */
  routes: number[][];
  /** Each: route, name, value, requests, errors, units, then bins and their counts. */
  tags: number[][];
};
/** Numbers of one owner. */
export const OWNER_FIELDS = 5;

/** What a sum is of, besides its own names. */
type JournalMinute = { readonly minute: number; readonly outcome: string };
type JournalOwner = { readonly project_id: string; readonly env: Env };

/**
 * Enough shards that each fits into one row. A power of two, so that the shards of other batches divide them evenly.
 */
export function shardCount(sums: number): number {
  return Math.min(SHARDS_MAX, 2 ** Math.ceil(Math.log2(Math.max(1, sums / SHARD_SUMS))));
}

/** By the last digits of the key's id, which are random. */
export function shardOf(key_id: string | null, shards: number): number {
  if (shards === 1 || key_id === null) return 0;
  return Math.floor((Number.parseInt(key_id.slice(-2), 16) * shards) / SHARDS_MAX);
}

/** One row of the journal after the other, of the same shard. */
export class JournalWriter {
  readonly #shard: number;
  #slices: JournalSlice[] = [];
  #texts: string[] = [];
  #indexes = new Map<string, number>();
  #sums = 0;
  #last: { place: JournalOwner; encoded: JournalPlace } | undefined;

  constructor(shard: number) {
    this.#shard = shard;
  }

  get isEmpty(): boolean {
    return this.#sums === 0;
  }

  get isFull(): boolean {
    return this.#sums >= ROW_SUMS_MAX;
  }

  /** Where the next sum goes. */
  add({ minute, outcome }: JournalMinute, place: JournalOwner): JournalPlace {
    this.#sums++;
    if (this.#last?.place === place) return this.#last.encoded;
    const [project, env] = [this.text(place.project_id), this.text(place.env)];
    const encoded: JournalPlace = { project, env, owners: [], routes: [], tags: [] };
    this.#slices.push({ minute, outcome: this.text(outcome), places: [encoded] });
    this.#last = { place, encoded };
    return encoded;
  }

  text(text: string | null): number {
    if (text === null) return -1;
    let index = this.#indexes.get(text);
    if (index === undefined) this.#indexes.set(text, (index = this.#texts.push(text) - 1));
    return index;
  }

  /** The row's data. What is added next belongs to another row. */
  take(): string {
    const data: JournalData = { shard: this.#shard, texts: this.#texts, slices: this.#slices };
    this.#slices = [];
    this.#texts = [];
    this.#indexes = new Map();
    this.#sums = 0;
    this.#last = undefined;
    return JSON.stringify(data);
  }
}
