// What every operation gets handed: the running instance, and who asks. Nothing here is global.
import type { Settings } from "../../config/settings.ts";
import type { ClaimStore } from "../../kernel/idempotency.ts";
import type { Store } from "../../store/store.ts";
import type { Log } from "../../platform/log.ts";
import type { Actor } from "./actor.ts";
import type { Clock } from "./clock.ts";
import type { Feed } from "../policy/feed.ts";
import type { CredentialCache } from "../auth/credential-cache.ts";
import type { IdempotencyReplay } from "../limits/idempotency-replays.ts";
import type { NodeRegistry } from "../policy/node-registry.ts";
import type { Mailer } from "../mail/message.ts";
import type { Passwords } from "../auth/password.ts";
import type { KnownIds } from "../usage/known-ids.ts";
import type { Counters } from "../limits/counters.ts";
import type { ScannerKeys } from "../keys/scanner-keys.ts";
import type { BackupState, StatusCache, WorkerState } from "../health/state.ts";
import type { MutationCounts } from "../health/mutation-counts.ts";
import type { Throttles } from "../auth/throttle.ts";
import type { Vault } from "../vault/vault.ts";

/** The running instance. */
export type Services = {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: Settings;
  readonly vault: Vault;
  readonly log: Log;
  newId(): string;
  /** The address people and browsers use; the listening one unless set. */
  publicUrl: string;
  readonly throttles: Throttles;
  readonly passwords: Passwords;
  readonly mail: Mailer;
  /** SHA-256 of the bootstrap token; null when the door is closed. */
  bootstrapHash(): string | null;
  /** When a credential's last use was last written, by record id. */
  readonly touched: Map<string, number>;
  /** Idempotency-Keys whose first request is still running in this process. */
  readonly inFlight: Set<string>;
  /** Secret keys resolved a moment ago. */
  readonly credentialCache: CredentialCache;
  /** Heads, pages and waiting polls of the policy feed. */
  readonly feed: Feed;
  /** The nodes that poll it. */
  readonly nodes: NodeRegistry;
  /** Rate-limit counters. */
  readonly counters: Counters;
  /** Where idempotency claims live. */
  readonly claims: ClaimStore;
  /** Projects, tenants and keys that ingest has already seen to belong to a workspace. */
  readonly knownIds: KnownIds;
  /** Public keys of the secret scanner; null when none is configured. */
  readonly scannerKeys: ScannerKeys | null;
  /** How the jobs of this process fare; the worker writes it. */
  readonly worker: WorkerState;
  /** What is known of backups; absent where nothing makes any. */
  backups?: () => Promise<BackupState>;
  readonly statusCache: StatusCache;
  /** Committed mutations by audit action, for /metrics. */
  readonly mutationCounts: MutationCounts;
  /** Aborted when the instance stops: long operations such as backups end early. */
  readonly shutdown: AbortController;
};

/** One operation: the instance, the actor, and the retry protection of this request, if it asked for one. */
export type Ctx<A extends Actor = Actor> = {
  readonly services: Services;
  readonly actor: A;
  readonly replay?: IdempotencyReplay | undefined;
  /** Where the request came from, for throttles and the log; absent for what did not come over HTTP. */
  readonly from?: RequestSource | undefined;
};

/** The caller's network (/24 or /64) and the id of the request. */
export type RequestSource = { readonly network: string; readonly request_id: string };
