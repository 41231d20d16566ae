// The customer's own API key as a credential: its holder may look at it, rotate it and revoke it, and nothing else. It
// is judged as an up-to-date node would judge it, so that a secret scanner learns whether the key still works.
import { networkOwner } from "../../fairness/owners.ts";
import { fail, type FailureName } from "../../kernel/errors.ts";
import { looksLikeApiKey, parseCredential } from "../../kernel/credentials.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import { sha256Hex } from "../../platform/crypto.ts";
import { holderByHash } from "../../store/queries/holders.ts";
import type { Reader } from "../../store/engine/tx.ts";
import type { Actor, ApiKeyActor } from "../core/actor.ts";
import { addressRuleOf, refusesAddress, tenantList } from "../keys/address-rules.ts";
import type { Services } from "../core/context.ts";
import type { Throttle } from "../limits/throttles.ts";

const PER_NETWORK = { name: "holder-network", limit: 60, windowMs: MINUTE_MS };
const PER_KEY = { name: "holder", limit: 30, windowMs: MINUTE_MS };

/** Before any lookup. `perHolder` is of the endpoint. A text with a wrong checksum counts for its network only. */
export function throttleHolder(
  { throttles }: Services,
  bearer: string | null,
  network: string,
  perHolder?: Throttle,
): void {
  throttles.takeOfNetwork(PER_NETWORK, network);
  if (bearer === null || !parseCredential(bearer)) return;
  const key = sha256Hex(bearer);
  const owner = networkOwner(network);
  throttles.take(PER_KEY, key, owner);
  if (perHolder) throttles.take(perHolder, key, owner);
}

/**
 * What an endpoint decides about by itself. `ending`: the key may be in any state, because ending one is never refused.
 * `retryable`: it may have expired, as by a rotation without overlap whose response was lost.
 */
type HolderUse = { ending: boolean; retryable: boolean };

/**
 * Null unless the text is of an API key, or of a mistyped one. Returns without a promise where SQLite has the key, so
 * that the handler still runs in the turn of its owner (fairness/turns.ts).
 */
export function resolveHolder(
  services: Services,
  bearer: string,
  address: string | null,
  use: HolderUse,
): Actor | Promise<Actor> | null {
  if (!looksLikeApiKey(bearer)) return null;
  const found = parseCredential(bearer) ? holderActor(services, bearer, address, services.store.read) : null;
  return found instanceof Promise ? found.then((actor) => requireHolder(actor, use)) : requireHolder(found, use);
}

function requireHolder(actor: ApiKeyActor | null, use: HolderUse): Actor {
  if (!actor) throw fail("invalid_key");
  const { refused } = actor;
  if (refused !== null && !use.ending && !(use.retryable && refused === "expired_key")) throw fail(refused);
  return actor;
}

export function holderActor(
  { clock }: Services,
  bearer: string,
  address: string | null,
  on: Reader,
): ApiKeyActor | null | Promise<ApiKeyActor | null> {
  const found = holderByHash.firstMemoized(on, { lookup_hash: sha256Hex(bearer) });
  const toActor = (row: Found | undefined): ApiKeyActor | null => {
    if (!row) return null;
    const { id, workspace_id, account_id, project_id, tenant_id, env } = row;
    const refused = refusalOf(row, clock.now(), address);
    return { kind: "api_key", id, workspace_id, account_id, project_id, tenant_id, env, address, refused };
  };
  return found instanceof Promise ? found.then(toActor) : toActor(found);
}

type Found = NonNullable<Awaited<ReturnType<typeof holderByHash.first>>>;

/** The order is that of a node. */
function refusalOf(row: Found, now: number, address: string | null): FailureName | null {
  if (row.revoked) return "invalid_key";
  if (row.expires_at !== null && row.expires_at <= now) return "expired_key";
  if (row.suspended_at !== null) return "tenant_suspended";
  if (row.disabled_at !== null) return "key_disabled";
  return refusesAddress(addressRuleOf(row, tenantList(row)), address) ? "ip_not_allowed" : null;
}
