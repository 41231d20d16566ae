// createKeyrack: composes the library and owns its lifecycle, from the first policy to close(). Must not throw after
// construction: a failing control plane must not end the vendor's process.

import { CacheFile } from "./feed/cache-file.ts";
import { CallError, Client, type Runtime } from "./client.ts";
import { DENIED, type Denied, type Verdict } from "./context.ts";
import { Feed } from "./feed/feed.ts";
import { Guard, type GuardDependencies, requireCost } from "./guard.ts";
import { PolicyState } from "./feed/policy-state.ts";
import { Idempotency } from "./idempotency/idempotency.ts";
import { LeaseLimiter } from "./limits/leases.ts";
import { CheckLimiter } from "./limits/check.ts";
import { type KeyrackOptions, readFailMode, readOptions, type Settings } from "./options.ts";
import { INTERNALS, type Keyrack, type ReportedRequest, type Status, type VerifyOptions } from "./internals.ts";
import { Otel } from "./otel.ts";
import { NotedVerdicts } from "./telemetry/noted-verdicts.ts";
import { Reporter, type RequestOutcome } from "./telemetry/report.ts";
import { defaultPorts, type Log, type Ports, safeLog } from "./runtime.ts";
import { NO_GROUPS, readScopes } from "./scopes.ts";
import { AddedTags, cleanTags } from "./telemetry/tags.ts";
import { Verifier } from "./verifier.ts";

/** The control plane rejected the configuration (400, 401, 403 or 404), or no policy arrived in time. */
export class KeyrackError extends Error {
  override name = "KeyrackError";
}

type Waiter = { resolve(): void; reject(error: Error): void };
const REJECTIONS = new Set([400, 401, 403, 404]);
/** How long ready() waits for the control plane while the cache file's policy is in force. */
const CACHED_WAIT_MS = 2000;
const NO_SCOPES: readonly string[] = [];
const NO_OPTIONS: VerifyOptions = {};

/** `name`: that of a program built on the library, for its reports. */
export function createKeyrackWith<Resources = undefined>(
  options: KeyrackOptions<Resources>,
  ports: Ports = defaultPorts(),
  name?: string,
): Keyrack<Resources> {
  const settings = readOptions(options, name);
  const log = safeLog(options.log);
  if (isExposed(settings.url)) log("warn", "the secret key travels unencrypted: use https", { url: settings.url });
  const state = new PolicyState(settings, ports);
  const runtime = { client: new Client(settings, ports), settings, ports, log };
  const resources = options.resources ?? { live: undefined, test: undefined };
  const verifier = new Verifier(state, settings, ports, log, options.log !== undefined, resources);
  const otel = openOtel(options, settings, log, () => readStatus(state, ports).ageMs);
  const reporter = new Reporter(runtime, (events) => otel?.dropped(events));
  const [tags, noted] = [new AddedTags(), new NotedVerdicts()];
  const [checker, idempotency] = [new CheckLimiter(runtime), new Idempotency(runtime)];
  const leases = new LeaseLimiter(runtime, checker);
  const cache = settings.cacheFile === null ? null : new CacheFile(settings.cacheFile, runtime, state);
  const waiters = new Waiters(ports, () => state.current() !== null);

  const feed = new Feed(runtime, state, {
    confirmed(changed) {
      cache?.note(changed);
      waiters.resolve();
    },
    failed(error) {
      // With a policy from the cache file, one failed refresh is enough to start with it.
      if (state.policy) waiters.resolve();
      else if (error instanceof CallError && REJECTIONS.has(error.status)) waiters.reject(startError(error));
      else waiters.logWait(runtime, error);
    },
  });
  const started = (cache?.load() ?? Promise.resolve()).then(() => {
    feed.start();
    if (state.policy) ports.after(CACHED_WAIT_MS, () => waiters.resolveIfPolicy());
  });

  const { failMode, trustedProxies, clientInfo } = settings;
  const perRoute = { failMode, trustedProxies, clientInfo, tags, otel };
  const dependencies: GuardDependencies = { verifier, reporter, checker, leases, ports, log, ...perRoute };
  let closing: Promise<void> | null = null;
  const close = async () => {
    state.close();
    waiters.close();
    await started;
    await Promise.all([reporter.close(), leases.close(), checker.close(), idempotency.close(), feed.stop()]);
    await cache?.close();
    otel?.close();
  };

  return {
    ready: ({ timeoutMs } = {}) => waiters.wait(timeoutMs),
    verify: (key, options) => verifyKey(verifier, settings, noted, key, options) as Verdict<Resources>,
    tag: (context, added) => tags.add(context, added),
    report: reportWith({ reporter, otel, tags, noted, clientInfo }),
    status: () => readStatus(state, ports),
    close: () => (closing ??= close()),
    [INTERNALS]: {
      guard: (options, anyOf) => new Guard(dependencies, options, anyOf),
      idempotent: (handler, options) => idempotency.route(handler, options),
      trustedProxies,
    },
  };
}

function verifyKey(
  verifier: Verifier,
  settings: Settings,
  noted: NotedVerdicts,
  key: unknown,
  options?: VerifyOptions,
): Verdict {
  if (typeof key !== "string" || key === "") return denyMissingKey(key);
  const { scopes = NO_SCOPES, failMode = settings.failMode, ip = null } = options ?? NO_OPTIONS;
  // Checked on every call: a misspelled `scope` would silently require no scopes.
  for (const name in options) {
    if (name !== "scopes" && name !== "failMode" && name !== "ip")
      throw new TypeError(`keyrack: verify has no option "${name}".`);
  }
  if (failMode !== "closed") readFailMode(failMode);
  const { all, any } = Array.isArray(scopes) ? { all: scopes, any: NO_GROUPS } : readScopes(scopes);
  const verdict = verifier.judge(key, 0, all, failMode, any, ip);
  const { outside, rejected } = verifier;
  return outside === null && rejected === null ? verdict : noted.note(verdict, outside, rejected);
}

type ReportParts = {
  reporter: Reporter;
  otel: Otel | null;
  tags: AddedTags;
  noted: NotedVerdicts;
  clientInfo: boolean;
};

/** Called where a response has ended: an invalid value must not throw there. */
function reportWith({ reporter, otel, tags, noted, clientInfo }: ReportParts): Keyrack["report"] {
  return (request) => {
    try {
      const decision = decisionOf(request, tags, noted, clientInfo);
      otel?.decided(decision);
      reporter.record(decision);
    } catch (error) {
      reporter.dropInvalid(error);
    }
  };
}

function openOtel(
  { otel: api }: KeyrackOptions,
  { projectId, env }: Settings,
  log: Log,
  policyAgeMs: () => number | null,
): Otel | null {
  return api ? Otel.open({ api, projectId, env, log, policyAgeMs }) : null;
}

/** What a user of bare `verify` reports, as the guard would have. */
function decisionOf(
  request: ReportedRequest,
  added: AddedTags,
  noted: NotedVerdicts,
  clientInfo: boolean,
): RequestOutcome {
  const { context = null, denial = null, method, path, route = null, status, durationMs } = request;
  const { cost = 1, tags, ip: address = null, userAgent } = request;
  const client = clientInfo ? { address, userAgent } : null;
  const all = cleanTags({ ...tags, ...added.of(context) });
  const outcome = { method, path, route, status, durationMs, cost: requireCost(cost), tags: all, client };
  const { subject = context, outside = null } = noted.of(context ?? denial) ?? {};
  return { ...outcome, subject, outside, denial: denial?.code ?? null, degraded: context?.degraded ?? false };
}

function readStatus(state: PolicyState, ports: Ports): Status {
  const policy = state.current();
  const ageMs = policy ? Math.max(0, ports.now() - state.confirmedAt) : null;
  const caps = policy?.caps ? policy.caps.split(",") : [];
  return { version: policy?.version ?? null, keys: policy?.keys.count ?? 0, ageMs, degraded: state.degraded, caps };
}

function isExposed(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname);
}

function denyMissingKey(key: unknown): Denied {
  return key === null || key === undefined || key === "" ? DENIED.missing_key : DENIED.invalid_key;
}

/** The calls of ready() that wait for the first policy. */
class Waiters {
  readonly #ports: Ports;
  readonly #hasPolicy: () => boolean;
  #ready = false;
  #isLogged = false;
  #closed: KeyrackError | null = null;
  readonly #waiting = new Set<Waiter>();

  constructor(ports: Ports, hasPolicy: () => boolean) {
    this.#ports = ports;
    this.#hasPolicy = hasPolicy;
  }

  /** Once: a process that waits before it listens shows nothing else. */
  logWait({ log, settings: { url } }: Runtime, { message: why }: Error): void {
    if (this.#waiting.size === 0 || this.#isLogged) return;
    this.#isLogged = true;
    log("error", "the first policy cannot be loaded yet", { url, why });
  }

  wait(timeoutMs?: number): Promise<void> {
    if (this.#ready) return Promise.resolve();
    if (this.#closed) return Promise.reject(this.#closed);
    return new Promise((resolve, reject) => {
      const onTimeout = () => {
        this.#waiting.delete(waiter);
        if (this.#hasPolicy()) return resolve();
        reject(new KeyrackError(`keyrack has no policy after ${timeoutMs} ms.`));
      };
      const cancel = timeoutMs === undefined ? () => {} : this.#ports.after(timeoutMs, onTimeout, true);
      const waiter: Waiter = {
        resolve: () => (cancel(), resolve()),
        reject: (error) => (cancel(), reject(error)),
      };
      this.#waiting.add(waiter);
    });
  }

  /** A control plane that does not respond must not delay a start with the cache file's policy. */
  resolveIfPolicy(): void {
    if (this.#hasPolicy()) this.resolve();
  }

  resolve(): void {
    this.#ready = true;
    for (const waiter of this.#waiting) waiter.resolve();
    this.#waiting.clear();
  }

  reject(error: KeyrackError): void {
    for (const waiter of this.#waiting) waiter.reject(error);
    this.#waiting.clear();
  }

  close(): void {
    this.#closed = new KeyrackError("keyrack was closed before its first policy arrived.");
    this.reject(this.#closed);
  }
}

function startError(error: CallError): KeyrackError {
  const why: Record<number, string> = {
    401: "the secret key is not accepted",
    403: "the secret key may not read policies: it needs the permission verify",
    404: "there is no project with this id, or the URL is not that of a Keyrack server",
  };
  const reason = why[error.status] ?? "the request is not accepted";
  return new KeyrackError(`Cannot start: ${reason} (status ${error.status}).`);
}
