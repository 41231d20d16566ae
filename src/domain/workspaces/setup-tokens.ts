// Setup links: with one, the first person claims an instance that has no owner yet. The link is printed by the server
// or by `keyrack setup link`, to standard output only, and works once within an hour.
import { fail } from "../../kernel/errors.ts";
import { parseCredential } from "../../kernel/credentials.ts";
import { HOUR_MS } from "../../kernel/durations.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { sha256Hex } from "../../platform/crypto.ts";
import { anyOwner } from "../../store/queries/memberships.ts";
import { endSetupTokens, insertSetupToken, setupTokenByHash } from "../../store/queries/setup-tokens.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import { mint } from "../auth/new-credentials.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";

const LIFE_MS = HOUR_MS;
const LIVE_MAX = 20;
const UNCLAIMED_CACHE_MS = 1_000;

/** Being claimed is permanent and cached for good; being unclaimed is cached for a second. */
export async function isClaimed({ setup, store, clock }: Services): Promise<boolean> {
  const now = clock.now();
  if (setup.claimed || now < setup.unclaimedUntil) return setup.claimed;
  setup.claimed = await hasOwner(store.read);
  setup.unclaimedUntil = now + UNCLAIMED_CACHE_MS;
  return setup.claimed;
}

/** Workspaces made with the bootstrap token have no members and claim nothing. */
export async function hasOwner(on: Reader): Promise<boolean> {
  return (await anyOwner.first(on, {})) !== undefined;
}

export async function isSetupOpen(services: Services): Promise<boolean> {
  return services.settings.bootstrap && !(await isClaimed(services));
}

/** In the transaction in which a person becomes an owner: the first one claims the instance. */
export async function endSetupLinks({ clock }: Services, tx: Tx): Promise<void> {
  await endSetupTokens.run(tx, { now: clock.now(), kept: 0 });
}

export type SetupLink = { url: string; expires_at: string };

export async function issueSetupLink(services: Services): Promise<SetupLink> {
  if (await hasOwner(services.store.read)) throw fail("setup_done");
  if (!services.settings.bootstrap) throw fail("setup_off");
  const now = services.clock.now();
  const { text, stored } = mint("setup");
  const expires_at = now + LIFE_MS;
  await record(services, async (tx) => {
    await endSetupTokens.run(tx, { now, kept: LIVE_MAX - 1 });
    await insertSetupToken.run(tx, { token_hash: stored.lookup_hash, created_at: now, expires_at, ended_at: null });
  });
  return { url: `${baseUrl(services)}/#/setup?token=${text}`, expires_at: formatTimestamp(expires_at) };
}

/** A browser cannot open a wildcard address. */
function baseUrl({ settings, publicUrl }: Services): string {
  return settings.public_url ?? publicUrl.replace(/\/\/(0\.0\.0\.0|\[::\])(?=[:/]|$)/, "//localhost");
}

/** Unknown, used, expired and malformed tokens get the same failure, and any token while setup is off. */
export async function requireSetupToken({ settings, clock }: Services, on: Reader, text: string): Promise<void> {
  const wellFormed = settings.bootstrap && parseCredential(text)?.kind === "setup";
  const row = wellFormed ? await setupTokenByHash.first(on, { token_hash: sha256Hex(text) }) : undefined;
  if (!row || row.ended_at !== null || row.expires_at <= clock.now()) throw fail("invalid_token");
}
