// The caches in the shares table. An account may use a quarter of each.
import type { Limits } from "./ledger.ts";
import { MIB } from "../kernel/sizes.ts";

const quarterOf = (bound: number) => (): Limits => ({ bound, share: bound / 4, shareOf: "account" });

export const cacheShares = {
  caches: {
    what: "Bytes of cached pages of the policy feed",
    owners: ["cell", "account"],
    limits: quarterOf(64 * MIB),
    atBound: "its least recently used pages are evicted, those of test keys first",
  },
  not_modified: {
    what: "Responses to polls of the policy feed that found no change",
    owners: ["cell"],
    limits: quarterOf(1_000),
    atBound: "its oldest is rebuilt",
  },
  touches: {
    what: "Secret keys and sessions whose last use was written; once a minute each",
    owners: ["cell", "person"],
    limits: quarterOf(100_000),
    atBound: "the next use of its oldest is written again",
  },
  heads: {
    what: "Projects whose policy version this process knows; on PostgreSQL none",
    owners: ["cell"],
    limits: quarterOf(10_000),
    atBound: "its oldest is read from the database again",
  },
  known_nodes: {
    what: "Nodes whose row this process knows, so that a poll without news reads and writes nothing",
    owners: ["cell"],
    limits: quarterOf(50_000),
    atBound: "its oldest is read from the database again",
  },
  credentials: {
    what: "Secret keys that were used at machine endpoints in the last seconds",
    owners: ["cell"],
    limits: quarterOf(10_000),
    atBound: "its oldest is read from the database again",
  },
  known_ids: {
    what: "Ids of keys, projects and tenants that telemetry has named",
    owners: ["cell"],
    limits: quarterOf(200_000),
    atBound: "all of its ids are read from the database again",
  },
} as const;
