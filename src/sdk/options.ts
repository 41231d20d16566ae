// The options of createKeyrack: validated once and completed with defaults. An invalid option throws here, at start: a
// typo in a fail mode must never surface on a request.

import { NODE_ID, SAMPLE_RATE_MIN } from "../kernel/usage/event-bounds.ts";
import type { Env } from "../kernel/credentials.ts";
import { guessCredentialKind, parseCredential } from "../kernel/credentials.ts";
import { KeyFormats } from "../kernel/crypto/key-digest.ts";
import { DAY_MS } from "../kernel/durations.ts";
import { OWN_PREFIX, PREFIX_FORM } from "../kernel/key-prefixes.ts";
import { parseUuid } from "../kernel/ids.ts";
import { TRUSTED_MAX, TrustedProxies } from "../kernel/network/trusted-proxies.ts";
import type { OtelApi } from "./otel.ts";
import { type Log, randomHex } from "./runtime.ts";
import { builtinModule } from "./builtins.ts";
import { SDK_NAME, SDK_VERSION } from "./version.ts";

export type FailMode = "closed" | "open";

export type KeyrackOptions<Resources = unknown> = {
  /** Where the control plane listens. */
  url: string;
  /** The vendor's own `krsk_…` credential. */
  secretKey: string;
  projectId: string;
  /** Admit only this environment's keys. Default: both; with a test secret key: "test". */
  env?: Env | undefined;
  /** Unique per process. Default: host name, process id and random digits. */
  nodeId?: string | undefined;
  /** Poll interval where long polls do not work. */
  pollMs?: number | undefined;
  /** A policy older than this still decides, with `degraded: true`. */
  staleMs?: number | undefined;
  /** A policy older than this counts as none. */
  maxStaleMs?: number | undefined;
  /** While there is no policy: respond 503 (closed), or admit unverified (open). */
  failMode?: FailMode | undefined;
  /** While quotas cannot be charged: admit and charge later (open), or respond 503 (closed). */
  quotaFailMode?: FailMode | undefined;
  /** Stores the last good policy, so that a restart does not need the control plane. */
  cacheFile?: string | undefined;
  /** The fraction of requests reported, 0.0001 to 1. */
  sampleRate?: number | undefined;
  /** The vendor's own objects for each environment, available as `context.resources`. */
  resources?: { live: Resources; test: Resources } | undefined;
  /** The prefixes of your keys, for the time before the first policy is loaded. */
  keyPrefixes?: readonly string[] | undefined;
  /** Proxies in front of the application, as addresses or networks, and "unix": whose X-Forwarded-For is believed. */
  trustedProxies?: readonly string[] | undefined;
  /** False: reports name neither the network nor the user agent that a key is used from. */
  clientInfo?: boolean | undefined;
  /** A policy with more keys is rejected as a broken feed. */
  maxKeys?: number | undefined;
  /** The OpenTelemetry API that the application uses: `import * as otel from "@opentelemetry/api"`. */
  otel?: OtelApi | undefined;
  log?: Log | undefined;
};

/** The options, valid and complete. */
export type Settings = Readonly<ReturnType<typeof readOptions>>;

const KNOWN: Readonly<Record<keyof KeyrackOptions, true>> = {
  url: true,
  secretKey: true,
  projectId: true,
  env: true,
  nodeId: true,
  pollMs: true,
  staleMs: true,
  maxStaleMs: true,
  failMode: true,
  quotaFailMode: true,
  cacheFile: true,
  sampleRate: true,
  resources: true,
  maxKeys: true,
  keyPrefixes: true,
  trustedProxies: true,
  clientInfo: true,
  otel: true,
  log: true,
};
export const NO_RESOURCES = Object.freeze({ live: undefined, test: undefined });

/** `program`: the one that reports, the library or what is built on it. */
export function readOptions(options: KeyrackOptions, program = SDK_NAME) {
  need(typeof options === "object" && options !== null, "createKeyrack takes an object of options");
  for (const name of Object.keys(options)) need(Object.hasOwn(KNOWN, name), `there is no option "${name}"`);
  const { nodeId = defaultNodeId(), cacheFile = null, sampleRate = 1, clientInfo = true } = options;
  const url = readUrl(options.url);
  const secretEnv = readSecretKey(options.secretKey);
  need(isSet(options.projectId), "projectId is not set");
  const projectId = typeof options.projectId === "string" ? parseUuid(options.projectId) : null;
  need(projectId !== null, "projectId must be a UUID");
  const isNodeId = typeof nodeId === "string" && NODE_ID.test(nodeId);
  need(isNodeId, "nodeId must be a text of 1 to 128 letters, digits, dots, colons, hyphens or underscores");
  need(
    typeof sampleRate === "number" && sampleRate >= SAMPLE_RATE_MIN && sampleRate <= 1,
    `sampleRate must be ${SAMPLE_RATE_MIN} to 1`,
  );
  need(options.log === undefined || typeof options.log === "function", "log must be a function");
  need(!options.otel || typeof options.otel === "object", "otel must be the OpenTelemetry API");
  need(isResources(options.resources ?? NO_RESOURCES), "resources must be an object with live and test");
  need(typeof clientInfo === "boolean", "clientInfo must be true or false");
  need(cacheFile === null || (typeof cacheFile === "string" && cacheFile !== ""), "cacheFile must be a path");
  need(cacheFile === null || builtinModule("node:fs/promises") !== undefined, "cacheFile needs Node 20.16 or newer");
  const settings = {
    sdk: { name: program, version: SDK_VERSION },
    url,
    secretKey: options.secretKey,
    projectId,
    env: readEnv(options.env, secretEnv),
    nodeId,
    pollMs: readWhole("pollMs", options.pollMs ?? 2000, 10),
    staleMs: readWhole("staleMs", options.staleMs ?? 30_000, 10),
    maxStaleMs: readWhole("maxStaleMs", options.maxStaleMs ?? DAY_MS, 10),
    failMode: readFailMode(options.failMode ?? "closed"),
    quotaFailMode: readFailMode(options.quotaFailMode ?? "open", "quotaFailMode"),
    cacheFile,
    sampleRate,
    maxKeys: readWhole("maxKeys", options.maxKeys ?? 5_000_000, 1),
    formats: readPrefixes(options.keyPrefixes ?? [OWN_PREFIX]),
    trustedProxies: readTrustedProxies(options.trustedProxies ?? []),
    clientInfo,
  };
  need(settings.maxStaleMs >= settings.staleMs, "maxStaleMs must not be smaller than staleMs");
  return settings;
}

function readPrefixes(prefixes: unknown): KeyFormats {
  const isList = Array.isArray(prefixes) && prefixes.length > 0 && new Set(prefixes).size === prefixes.length;
  const isSound = isList && prefixes.every((one) => typeof one === "string" && PREFIX_FORM.test(one));
  need(isSound, "keyPrefixes must be a list of distinct key prefixes");
  return new KeyFormats(prefixes as string[]);
}

function readTrustedProxies(entries: unknown): TrustedProxies {
  const isList = Array.isArray(entries) && entries.every((entry) => typeof entry === "string");
  need(isList && entries.length <= TRUSTED_MAX, `trustedProxies must be a list of at most ${TRUSTED_MAX} networks`);
  try {
    return new TrustedProxies(entries);
  } catch (error) {
    throw new TypeError(`keyrack: trustedProxies: ${(error as Error).message}.`, { cause: error });
  }
}

export function readFailMode(mode: unknown, name = "failMode"): FailMode {
  need(mode === "closed" || mode === "open", `${name} must be "closed" or "open"`);
  return mode;
}

export function need(holds: boolean, sentence: string): asserts holds {
  if (!holds) throw new TypeError(`keyrack: ${sentence}.`);
}

/** A misspelled environment would show only in requests with keys of it. */
function isResources(value: unknown): boolean {
  return typeof value === "object" && value !== null && "live" in value && "test" in value;
}

/** A variable that is not set is undefined or empty. */
function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "";
}

/** The environment of the secret key. The value itself is in no message. */
function readSecretKey(key: unknown): Env | null {
  need(isSet(key), "secretKey is not set");
  const text = typeof key === "string" ? key : "";
  need(text.trim() === text, "secretKey has spaces or line breaks around it: trim it");
  const secret = parseCredential(text);
  const isDamaged = secret === null && guessCredentialKind(text) === "secret_key";
  need(!isDamaged, "secretKey is mistyped or cut off: its checksum is wrong");
  need(secret?.kind === "secret_key", "secretKey must be a krsk_ secret key");
  return secret.env;
}

function readUrl(text: unknown): string {
  need(isSet(text), "url is not set");
  const url = typeof text === "string" && URL.canParse(text) ? new URL(text) : null;
  need(url?.protocol === "https:" || url?.protocol === "http:", "url must be an http or https URL");
  need(url.username === "" && url.password === "", "url must not contain a user name or password");
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

/** A test secret key sees only test keys, so "test" is its default. */
function readEnv(env: unknown, secretEnv: Env | null): Env | null {
  need(env === undefined || env === "live" || env === "test", 'env must be "live" or "test"');
  need(env !== "live" || secretEnv !== "test", "a test secret key cannot serve env live");
  if (env === undefined) return secretEnv === "test" ? "test" : null;
  return env;
}

function readWhole(name: string, value: unknown, min: number): number {
  const isWhole = typeof value === "number" && Number.isSafeInteger(value) && value >= min;
  need(isWhole, `${name} must be a whole number of at least ${min}`);
  return value;
}

function defaultNodeId(): string {
  const host =
    builtinModule("node:os")
      ?.hostname()
      .replace(/[^A-Za-z0-9._-]/g, "-") ?? "";
  const pid = (globalThis as { process?: { pid?: number } }).process?.pid ?? 0;
  return `${host.slice(0, 80) || "node"}:${pid}:${randomHex()}`;
}
