// The public keys of the secret scanner, from a file or an https URL in GitHub's format, and the check of its signatures:
// ECDSA P-256 with SHA-256 over the raw bytes, DER in base64. If the URL does not respond, reports get 503, so that the
// sender retries.
import { createPublicKey, verify, type KeyObject } from "node:crypto";
import { lookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { BlockList } from "node:net";
import { fail } from "../../kernel/errors.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../core/clock.ts";

const FRESH_MS = 3_600_000;
const RELOAD_EVERY_MS = 60_000;
const RESPONSE_MAX_MS = 5_000;
const LIST_BYTES_MAX = 1 << 20;

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

/** Loopback, link-local and private ranges: fetching from them would be server-side request forgery. */
const PRIVATE_RANGES = new BlockList();
for (const [net, bits] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
] as const)
  PRIVATE_RANGES.addSubnet(net, bits, "ipv4");
for (const [net, bits] of [
  ["::", 127],
  ["fc00::", 7],
  ["fe80::", 10],
] as const)
  PRIVATE_RANGES.addSubnet(net, bits, "ipv6");

type Resolve = (host: string) => Promise<{ address: string; family: number }[]>;
const resolveAll: Resolve = (host) => lookup(host, { all: true });

/** Rejects names that resolve to a private address, such as `localhost`, `[::1]` or a name of the internal DNS. */
async function requirePublicAddress(url: string, resolve: Resolve): Promise<void> {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, "");
  for (const { address, family } of await resolve(host)) {
    if (PRIVATE_RANGES.check(address, family === 6 ? "ipv6" : "ipv4")) throw new Error("its address is private");
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const late = (): void => reject(new Error("its name was not found in time"));
    if (signal.aborted) late();
    else signal.addEventListener("abort", late, { once: true });
  });
}

export function fetchedKeys(url: string, request: typeof fetch = fetch, resolve: Resolve = resolveAll): Load {
  return async () => {
    const signal = AbortSignal.timeout(RESPONSE_MAX_MS);
    await Promise.race([requirePublicAddress(url, resolve), aborted(signal)]); // DNS may take longer than the timeout
    const headers = { accept: "application/json", "user-agent": "keyrack" };
    const response = await request(url, { redirect: "error", signal, headers });
    if (!response.ok) throw new Error(`it responded with ${response.status}`);
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of response.body ?? []) {
      size += chunk.length;
      if (size > LIST_BYTES_MAX) throw new Error("the list is too long");
      chunks.push(chunk);
    }
    return parseKeyList(Buffer.concat(chunks).toString("utf8"));
  };
}
