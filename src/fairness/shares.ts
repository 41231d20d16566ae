// The shares table: everything that two owners share and that can grow, with its bound and what happens to an owner at
// its bound. The ledgers and their metrics are made from it; test/house/shares.test.ts finds structures that it does
// not cover.
import type { Settings } from "../config/settings.ts";
import { RECORDS_MAX } from "../kernel/idempotency.ts";
import { counter, gauge, type Family, type Sample } from "../kernel/exposition.ts";
import { MIB } from "../kernel/sizes.ts";
import { cacheShares } from "./cache-shares.ts";
import { Ledger, type Limits } from "./ledger.ts";
import type { OwnerKind } from "./owners.ts";
import { FLEET_READS, THREAD_READS } from "./slots.ts";

export type Share = {
  readonly what: string;
  readonly owners: readonly OwnerKind[];
  /** None by default. */
  readonly limits?: (settings: Settings) => Limits;
  /** What `limits` cannot express about the bound. */
  readonly boundNote?: string;
  /** What happens to the largest owner at the bound, and to any owner at its share. */
  readonly atBound: string;
  /** The environment variables of the bound, if there are some. */
  readonly setting?: string | readonly string[];
  /** What metrics show: refusals alone if the use is counted elsewhere. The use by default. */
  readonly shows?: "use" | "refusals" | "nothing";
};

const UNBOUNDED = Number.POSITIVE_INFINITY;

const fixed = (bound: number, share: number) => (): Limits => ({ bound, share });

export function limitsOf({ limits = fixed(UNBOUNDED, UNBOUNDED) }: Share, settings: Settings): Limits {
  return limits(settings);
}

export const sharesTable = {
  polls: {
    what: "Long polls of the policy feed",
    owners: ["cell"],
    limits: ({ max_waiting, connections_max }) => ({
      bound: max_waiting ?? Math.floor(connections_max * 0.9),
      share: UNBOUNDED,
    }),
    atBound: "its oldest poll gets its response early, as if nothing had changed",
    setting: ["KEYRACK_MAX_WAITING", "KEYRACK_CONNECTIONS_MAX"],
  },
  receipts: {
    what: "Calls of the vendor that wait for nodes: GET /v1/propagation, and changes with wait=true",
    owners: ["cell"],
    limits: fixed(100, UNBOUNDED),
    atBound:
      "its next call gets its response at once, with what is known; a smaller owner's ends its oldest in the same way",
  },
  holder_receipts: {
    what: "Calls of API keys that wait for nodes: POST /v1/self/revoke with wait=true",
    owners: ["cell"],
    limits: fixed(100, UNBOUNDED),
    boundNote: "customers of one account share them",
    atBound:
      "its next call gets its response at once, with what is known; a smaller customer's ends its oldest in the same way",
  },
  writes: {
    what: "Writes that wait for the group commit",
    owners: ["cell", "account", "person", "network"],
    limits: fixed(10_000, 2_000),
    atBound: "503; owners take turns in every group",
  },
  loop: {
    what: "Requests that wait for their turn on the event loop",
    owners: ["cell", "account", "person", "network"],
    atBound: "waits while other owners take their turns, of 0.25 ms each",
  },
  pipeline: {
    what: "Requests that wait for an earlier one on their connection, plus one per 4 KiB of waiting body",
    owners: ["cell", "account", "person", "network"],
    limits: fixed(16_384, 4_096),
    atBound: "503; not read beyond 16 on one connection, closed beyond 100; read later beyond 64 of an owner",
  },
  counters: {
    what: "Slots for rate-limit counters in this process: 1 per fixed counter, 2 per sliding counter, 10 per rule",
    owners: ["cell"],
    limits: ({ ratelimit_counters }) => ({ bound: ratelimit_counters, share: UNBOUNDED }),
    boundNote: "100,000 counters per cell",
    atBound: "its new ids share one counter per rule",
    setting: ["KEYRACK_RATELIMIT_COUNTERS", "KEYRACK_RATELIMIT_COUNTERS_PER_WORKSPACE"],
  },
  leases: {
    what: "Leases of rate-limit units that can still be returned to this process",
    owners: ["cell"],
    limits: fixed(100_000, 10_000),
    atBound: "the units of its oldest lease stay charged",
  },
  quota_leases: {
    what: "Leases of quota units that can still be returned to this process",
    owners: ["cell"],
    limits: fixed(100_000, 10_000),
    atBound: "the units of its oldest lease stay charged",
  },
  quota_definitions: {
    what: "Keys and tenants whose quotas this process read in the last seconds",
    owners: ["cell"],
    limits: fixed(200_000, 50_000),
    atBound: "its oldest is read from the database again",
  },
  quota_balances: {
    what: "Quota balances of which this process holds units",
    owners: ["cell"],
    limits: fixed(100_000, 25_000),
    atBound: "the units of its oldest balance are returned to the database",
  },
  quota_returns: {
    what: "Quota balances whose units wait to be returned, because the database had no room for the write",
    owners: ["cell"],
    limits: fixed(10_000, 2_500),
    atBound: "the units count as spent",
  },
  overviews: {
    what: "Workspace overviews computed in the last seconds",
    owners: ["cell"],
    limits: fixed(1_000, 1),
    atBound: "they are computed again for each request",
  },
  nodes: {
    what: "Reports of nodes that wait to be written; the nodes themselves are counted in the database",
    owners: ["cell"],
    limits: ({ nodes_max }) => ({ bound: nodes_max, share: UNBOUNDED }),
    atBound: "its oldest report is dropped, and the node reports again with its next poll",
    setting: "KEYRACK_NODES_MAX",
  },
  passwords: {
    what: "Passwords that wait to be hashed",
    owners: ["network"],
    limits: fixed(512, 32),
    atBound: "503",
  },
  disk: {
    what: "Bytes written this UTC day, approximately; for a person, only those outside a workspace",
    owners: ["cell", "person"],
    limits: ({ writes_mb_per_day: mb }) => ({ bound: UNBOUNDED, share: mb === 0 ? UNBOUNDED : mb * MIB }),
    boundNote: "test a quarter, a person at most 64 MiB",
    atBound: "429 for requests that store something; 503 when the disk is almost full and it wrote the most",
    setting: ["KEYRACK_WRITES_MB_PER_DAY", "KEYRACK_DISK_RESERVE_MB"],
  },
  idempotency: {
    what: "Idempotency records; counted in the database",
    owners: ["cell"],
    shows: "refusals",
    limits: fixed(UNBOUNDED, RECORDS_MAX),
    atBound: "429; responses beyond 1 GiB in total are not stored",
  },
  throttles: {
    what: "Windows of the throttles of logins, sign-ups and other requests",
    owners: ["network", "cell", "person"],
    limits: ({ throttle_subjects }) => ({ bound: throttle_subjects, share: UNBOUNDED }),
    atBound: "one of its windows is evicted; new windows for networks are refused until that window would have ended",
    setting: "KEYRACK_THROTTLE_SUBJECTS",
  },
  unsent: {
    what: "Bytes of large responses that clients have not read yet",
    owners: ["cell", "network", "person", "account"],
    limits: ({ unsent_mb }) => ({ bound: unsent_mb * MIB, share: (unsent_mb * MIB) / 4 }),
    atBound: "large responses wait 2 s for its clients to read, then 503; a connection that reads nothing is closed",
    setting: "KEYRACK_UNSENT_MB",
  },
  ...cacheShares,
  workers: {
    what: "Threads that verify audit chains; two at a time",
    owners: ["account"],
    shows: "nothing",
    atBound: "waits for its turn after 250 ms; the account that used the least time in the last minute is next",
  },
  usage_reads: {
    what: `Reads in worker threads, such as usage series: ${THREAD_READS.atOnce} run at a time, ${THREAD_READS.perOwner} per cell and ${THREAD_READS.perOwner} for all portals of an account, which never holds more than are free`,
    owners: ["cell"],
    shows: "refusals",
    atBound: "waits 2 s for its turn, then 503; at once when 1,000 are waiting",
  },
  fleet_reads: {
    what: `Reads of all nodes, or all keys, of a project, and of the keys of a bulk action: ${FLEET_READS.perOwner} per cell run at a time`,
    owners: ["cell"],
    shows: "refusals",
    atBound:
      "waits 2 s for its turn, then 503, or if a change is committed its response without nodes; at once when 1,000 are waiting",
  },
  exports: {
    what: "Exports of the audit log and of usage that are being streamed",
    owners: ["cell"],
    limits: fixed(UNBOUNDED, 4),
    boundNote: "test a quarter",
    atBound: "429",
  },
  bodies: {
    what: "Bytes of request bodies that are being received; of small ones only those that do not arrive at once",
    owners: ["cell", "person", "account"],
    limits: ({ bodies_mb }) => ({ bound: bodies_mb * MIB, share: (bodies_mb * MIB) / 4 }),
    atBound: "its connections are not read until there is room; after 30 s 408; with 32 waiting, and a small body, 503",
    setting: "KEYRACK_BODIES_MB",
  },
  anonymous_bodies: {
    what: "Bytes of request bodies without a credential that are being received; of small ones as above",
    owners: ["network"],
    limits: ({ bodies_mb }) => ({ bound: (bodies_mb * MIB) / 4, share: (bodies_mb * MIB) / 16 }),
    atBound: "its connections are not read until there is room; after 30 s 408; with 32 waiting, and a small body, 503",
    setting: "KEYRACK_BODIES_MB",
  },
  connections: {
    what: "Open connections; over TLS also those without a finished handshake",
    owners: ["network"],
    limits: ({ connections_max }) => ({ bound: connections_max, share: UNBOUNDED }),
    atBound: "its oldest connection is closed, those with a valid credential last",
    setting: "KEYRACK_CONNECTIONS_MAX",
  },
  log: {
    what: "Log lines about refused requests; counted by minute",
    owners: ["network"],
    shows: "nothing",
    atBound: "after 20 lines of one kind in a minute, one summary line",
  },
  quotas: {
    what: "Projects, tenants, secret keys, key prefixes, plans and pending invitations; counted in the database",
    owners: ["cell"],
    shows: "refusals",
    boundNote: "1,000, 1,000,000, 1,000, 20, 200 and 500; by test credentials 250, 250,000, 1,000 and 5 of these 20",
    atBound: "409",
  },
  ingest: {
    what: "Telemetry events per minute; counted in the database",
    owners: ["cell"],
    shows: "refusals",
    limits: ({ ingest_events_per_minute: share }) => ({ bound: UNBOUNDED, share }),
    boundNote: "live and test together, test a quarter",
    atBound: "429",
    setting: "KEYRACK_INGEST_EVENTS_PER_MINUTE",
  },
  workspaces: {
    what: "Workspaces that a person has created or owns; counted in the database",
    owners: ["person"],
    shows: "nothing",
    limits: ({ workspaces_per_person: max }) => ({ bound: UNBOUNDED, share: Math.max(1, max) }),
    atBound: "409",
    setting: "KEYRACK_WORKSPACES_PER_PERSON",
  },
  mail: {
    what: "Invitations within 24 hours; counted in the database",
    owners: ["account", "address"],
    shows: "refusals",
    limits: ({ invite_mails_per_day }) => ({ bound: UNBOUNDED, share: invite_mails_per_day }),
    boundNote: "3 to one address",
    atBound:
      "an account's invitation is refused with 429, or 503 while 500 of its emails wait; mail to an address is held back",
    setting: "KEYRACK_INVITE_MAILS_PER_DAY",
  },
} as const satisfies Record<string, Share>;

export type Resource = keyof typeof sharesTable;

export class Shares {
  readonly #ledgers = new Map<Resource, Ledger>();

  /** `existing`: ledgers that were created before the settings were known. */
  constructor(settings: Settings, existing: Partial<Record<Resource, Ledger>> = {}) {
    for (const [name, share] of entries()) {
      this.#ledgers.set(name, existing[name] ?? new Ledger(limitsOf(share, settings)));
    }
  }

  of(resource: Resource): Ledger {
    return this.#ledgers.get(resource) as Ledger;
  }

  /** Without any id, name or address: only the kind of owner is a label. */
  families(): Family[] {
    const used: Sample[] = [];
    const largest: Sample[] = [];
    const refused: Sample[] = [];
    for (const [resource, { owners, shows = "use" }] of entries()) {
      if (shows === "nothing") continue;
      const ledger = this.of(resource);
      if (shows === "use") {
        used.push({ labels: { resource }, value: ledger.used });
        const { bound, share } = ledger.limits;
        if (Number.isFinite(Math.min(bound, share))) largest.push({ labels: { resource }, value: ledger.largestPart });
      }
      for (const owner of owners) refused.push({ labels: { resource, owner }, value: ledger.refused.get(owner) ?? 0 });
    }
    return [
      gauge("keyrack_share_used", "In use by all owners, by resource.", used),
      gauge("keyrack_share_largest", "The largest owner's use divided by its share.", largest),
      counter(
        "keyrack_share_refused",
        "Refused or evicted because a limit was reached, by resource and kind of owner.",
        refused,
      ),
    ];
  }
}

function entries(): [Resource, Share][] {
  return Object.entries(sharesTable) as [Resource, Share][];
}
