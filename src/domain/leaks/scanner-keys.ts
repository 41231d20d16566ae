// The public keys of the secret scanner, from a file or an https URL in GitHub's format, and the check of its
// signatures: ECDSA P-256 with SHA-256 over the raw bytes, DER in base64. If the URL does not respond, reports get 503,
// so that the sender retries.
import { createPublicKey, verify, type KeyObject } from "node:crypto";
import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isPublicAddress } from "../../kernel/network/public-addresses.ts";
import { HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { fail } from "../../kernel/errors.ts";
import { getText } from "../../platform/https.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../core/clock.ts";

const FRESH_MS = HOUR_MS;
const RELOAD_EVERY_MS = MINUTE_MS;
const RESPONSE_MAX_MS = 5_000;
/** Parsing a key takes up to a millisecond of the event loop; GitHub lists a few. */
const LISTED_MAX = 100;

export type KeyList = ReadonlyMap<string, KeyObject>;
type Load = () => Promise<KeyList>;
type Parts = { clock: Clock; log: Log; load: Load };

export class ScannerKeys {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #load: Load;
  #keys: KeyList | undefined;
  #loadedAt = 0;
  #triedAt: number | undefined;
  #failed = false;
  #loading: Promise<void> | undefined;

  constructor({ clock, log, load }: Parts) {
    this.#clock = clock;
    this.#log = log;
    this.#load = load;
  }

  /** Whether the key with this identifier signed these bytes. */
  async verify(identifier: string, signature: string, body: Uint8Array): Promise<boolean> {
    const key = this.#fresh?.get(identifier) ?? (await this.#reloadAndFind(identifier));
    return key !== undefined && isSignedBy(key, signature, body);
  }

  get #fresh(): KeyList | undefined {
    return this.#clock.now() - this.#loadedAt < FRESH_MS ? this.#keys : undefined;
  }

  /** Reloads at most once a minute, however many reports name an unknown key. */
  async #reloadAndFind(identifier: string): Promise<KeyObject | undefined> {
    const due = this.#triedAt === undefined || this.#clock.now() - this.#triedAt >= RELOAD_EVERY_MS;
    if (due) this.#loading ??= this.#reload();
    await this.#loading;
    const keys = this.#fresh;
    if (this.#failed || !keys) throw fail("unavailable", { retryAfterSeconds: RELOAD_EVERY_MS / 1000 });
    return keys.get(identifier);
  }

  async #reload(): Promise<void> {
    this.#triedAt = this.#clock.now();
    try {
      this.#keys = await this.#load();
      this.#loadedAt = this.#clock.now();
      this.#failed = false;
    } catch (error) {
      this.#failed = true;
      this.#log.error("the secret scanner's public keys cannot be loaded", { error: (error as Error).message });
    } finally {
      this.#loading = undefined;
    }
  }
}

function isSignedBy(key: KeyObject, signature: string, body: Uint8Array): boolean {
  if (!/^[A-Za-z0-9+/]{1,200}={0,2}$/.test(signature)) return false;
  try {
    return verify("sha256", body, { key, dsaEncoding: "der" }, Buffer.from(signature, "base64"));
  } catch {
    return false;
  }
}

/** `{public_keys: [{key_identifier, key, is_current}]}`. Keys of other types are ignored. */
export function parseKeyList(text: string): KeyList {
  const { public_keys: listed } = (JSON.parse(text) ?? {}) as { public_keys?: unknown };
  if (!Array.isArray(listed)) throw new Error("it has no public_keys list");
  if (listed.length > LISTED_MAX) throw new Error(`it lists more than ${LISTED_MAX} keys`);
  const keys = new Map<string, KeyObject>();
  for (const one of listed as ({ key_identifier?: unknown; key?: unknown } | null)[]) {
    const key = typeof one?.key === "string" ? toP256(one.key) : undefined;
    if (key && typeof one?.key_identifier === "string") keys.set(one.key_identifier, key);
  }
  if (keys.size === 0) throw new Error("it holds no ECDSA P-256 key");
  return keys;
}

function toP256(pem: string): KeyObject | undefined {
  try {
    const key = createPublicKey(pem);
    return key.asymmetricKeyDetails?.namedCurve === "prime256v1" ? key : undefined;
  } catch {
    return undefined;
  }
}

export function keysInFile(file: string): Load {
  return async () => parseKeyList(await readFile(file, "utf8"));
}

type Resolve = (host: string) => Promise<LookupAddress[]>;
const resolveAll: Resolve = (host) => lookup(host, { all: true });

/**
 * The addresses of the URL's host. Rejects a name that has any private one, such as `localhost` or one of an internal
 * DNS.
 */
async function publicAddresses(url: string, resolve: Resolve): Promise<LookupAddress[]> {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, "");
  const addresses = await resolve(host);
  if (!addresses.every(({ address }) => isPublicAddress(address))) throw new Error("its address is private");
  return addresses;
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const late = (): void => reject(new Error("its name was not found in time"));
    if (signal.aborted) late();
    else signal.addEventListener("abort", late, { once: true });
  });
}

export type Get = (url: string, addresses: readonly LookupAddress[], signal: AbortSignal) => Promise<string>;

export function fetchedKeys(url: string, get: Get = getText, resolve: Resolve = resolveAll): Load {
  return async () => {
    const signal = AbortSignal.timeout(RESPONSE_MAX_MS);
    // DNS may take longer than the timeout.
    const addresses = await Promise.race([publicAddresses(url, resolve), aborted(signal)]);
    return parseKeyList(await get(url, addresses, signal));
  };
}
