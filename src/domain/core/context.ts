// The arguments of every operation: the services of the running instance, and the caller. Nothing is global. Types
// only: the classes named here must not import this file.
import type { Settings } from "../../config/settings.ts";
import type { FairMap } from "../../fairness/fair-map.ts";
import type { LargeResponses } from "../../fairness/large-responses.ts";
import type { LogLimit } from "../../fairness/log-limit.ts";
import type { Reservations } from "../../fairness/reservations.ts";
import type { Slots } from "../../fairness/slots.ts";
import type { Shares } from "../../fairness/shares.ts";
import type { ClaimStore } from "../../kernel/idempotency.ts";
import type { Store } from "../../store/store.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { Log } from "../../platform/log.ts";
import type { Actor, SecretKeyActor } from "./actor.ts";
import type { Clock } from "./clock.ts";
import type { Feed } from "../policy/feed.ts";
import type { CredentialCache } from "../auth/credential-cache.ts";
import type { IdempotencyReplay } from "../idempotency/replays.ts";
import type { FairSet } from "../../fairness/fair-set.ts";
import type { NodeRegistry } from "../nodes/registry.ts";
import type { SharedReads } from "../nodes/shared-reads.ts";
import type { NodesByCaps } from "../nodes/traits.ts";
import type { Mailer } from "../mail/message.ts";
import type { QuotaBank } from "../quotas/bank.ts";
import type { Subscription } from "./subscription.ts";
import type { Passwords } from "../auth/password.ts";
import type { KnownIds } from "../ingest/known-ids.ts";
import type { MeterState } from "../metering/state.ts";
import type { WrittenBytes } from "../limits/written-bytes.ts";
import type { Counters } from "../limits/counters.ts";
import type { ScannerKeys } from "../leaks/scanner-keys.ts";
import type { BackupState, SetupState, StatusCache, WorkerState } from "../health/state.ts";
import type { OverviewCache } from "../workspaces/overview-cache.ts";
import type { Counts } from "../health/counts.ts";
import type { Throttles } from "../limits/throttles.ts";
import type { Vault } from "../vault/vault.ts";

/** Everything an instance offers to its operations, composed in src/server/services.ts and instance.ts. */
export type Services = {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: Settings;
  readonly vault: Vault;
  readonly log: Log;
  /** Which lines about refused requests and failed attempts are written in full. */
  readonly securityLog: LogLimit;
  newId(): string;
  /** What owners share, and how much of it each of them holds. */
  readonly shares: Shares;
  /** Large responses that are being built or not yet taken. */
  readonly largeResponses: LargeResponses;
  /** Reads of all nodes of a project, and long reads in worker threads. */
  readonly readSlots: { readonly fleet: Slots; readonly threads: Slots };
  /** Counts the nodes of a project, for warnings. */
  readonly sharedNodes: SharedReads<NodesByCaps | undefined>;
  /** Room for request bodies that are being read, with and without a credential. */
  readonly bodies: { readonly authenticated: Reservations; readonly anonymous: Reservations };
  /** The URL that people and browsers use: KEYRACK_PUBLIC_URL, or the listening address. */
  publicUrl: string;
  /** How this program is called in a shell on the server's machine. */
  readonly command: string;
  readonly throttles: Throttles;
  /** How much each environment of a workspace writes in a day. */
  readonly writtenBytes: WrittenBytes;
  readonly passwords: Passwords;
  readonly mail: Mailer;
  /** SHA-256 of the bootstrap token; null when creating workspaces with it is disabled. */
  bootstrapHash(): string | null;
  /** When the last use of a credential was last written, by record id. */
  readonly touched: FairMap<number>;
  /** Responses of the policy feed without a change, by tag. */
  readonly notModified: FairMap<object>;
  /** Hashes of idempotency keys whose first request is still running in this process. */
  readonly inFlight: Set<string>;
  /** Recently resolved secret keys. */
  readonly credentialCache: CredentialCache;
  /** Heads, cached pages and long polls of the policy feed. */
  readonly feed: Feed;
  /** The nodes that poll the feed, and what they have acknowledged. */
  readonly nodes: NodeRegistry;
  /** Calls of the vendor that wait for nodes. */
  readonly waitingReceipts: FairSet<Subscription>;
  /** Calls of API keys that wait for nodes: customers must not take the places of the vendor. */
  readonly waitingHolders: FairSet<Subscription>;
  readonly counters: Counters;
  /** Units of quotas that this process has taken. */
  readonly quotas: QuotaBank;
  /** Idempotency claims of the vendor's API. */
  readonly claims: ClaimStore;
  /** The time of claims in the database; on PostgreSQL the database's own. */
  readonly claimNow: (tx: Tx) => number | Promise<number>;
  /** Projects, tenants and keys already known to belong to a workspace, for ingest. */
  readonly knownIds: KnownIds;
  /** The push of usage: its next attempt and last error. */
  readonly meter: MeterState;
  /** Public keys of the secret scanner; null when none is configured. */
  readonly scannerKeys: ScannerKeys | null;
  /** Written by the scheduler. */
  readonly worker: WorkerState;
  /** Absent in instances that make no backups. */
  backups?: () => Promise<BackupState>;
  readonly statusCache: StatusCache;
  readonly overviews: OverviewCache;
  readonly setup: SetupState;
  readonly counts: Counts;
  /** Aborted when the instance stops: long operations such as backups end early. */
  readonly shutdown: AbortController;
};

export type Recheck = (tx: Tx) => Promise<void>;

/** The context of one operation. */
export type Ctx<A extends Actor = Actor> = {
  readonly services: Services;
  readonly actor: A;
  /** Set when the request carries an idempotency key. */
  readonly replay?: IdempotencyReplay | undefined;
  /**
   * Fails unless the credential behind `actor` still is, in this transaction, what it was when the request began.
   * `mutate` calls it. Absent for operations that did not come over HTTP.
   */
  readonly recheck?: Recheck | undefined;
  /** Fails if the credential has ended: for an operation that has waited. */
  readonly requireStillValid?: (() => Promise<void>) | undefined;
  /** Whether the client has closed its connection, so that it gets no response. */
  readonly hasDisconnected?: (() => boolean) | undefined;
  /** For throttles and the log; absent for operations that did not come over HTTP. */
  readonly from?: RequestSource | undefined;
};

/** The context of a request on the machine plane. */
export type Machine = Ctx<SecretKeyActor>;

/** The caller's network (/24 or /64) and the id of the request. */
export type RequestSource = { readonly network: string; readonly request_id: string };
