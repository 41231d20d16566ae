// createKeyrack: composes the library and owns its lifecycle, from the first policy to close(). Must not throw after
// construction: a failing control plane must not end the vendor's process.

import { CacheFile } from "./feed/cache-file.ts";
import { Client } from "./client.ts";
import type { Verdict } from "./context.ts";
import { Feed } from "./feed/feed.ts";
import { Guard, type GuardDependencies } from "./guard.ts";
import { requireCost } from "./protect-options.ts";
import { PolicyState } from "./feed/policy-state.ts";
import { Idempotency } from "./idempotency/idempotency.ts";
import { LeaseLimiter } from "./limits/leases.ts";
import { CheckLimiter } from "./limits/check.ts";
import { readTimeout, Waiters } from "./ready.ts";
import { type KeyrackOptions, NO_RESOURCES, readFailMode, readOptions, type Settings } from "./options.ts";
import type { Keyrack, ReportedRequest, Status, VerifyOptions } from "./instance.ts";
import { INTERNALS, type Instance } from "./internals.ts";
import { Otel } from "./otel.ts";
import { NotedVerdicts } from "./telemetry/noted-verdicts.ts";
import { Reporter, type RequestOutcome } from "./telemetry/report.ts";
import { defaultPorts, type Log, type Ports, safeLog } from "./runtime.ts";
import { NO_GROUPS, readScopes } from "./scopes.ts";
import { AddedTags, cleanTags } from "./telemetry/tags.ts";
import { Verifier } from "./verifier.ts";

/** How long ready() waits for the control plane while the cache file's policy is in force. */
const CACHED_WAIT_MS = 2000;
const NO_SCOPES: readonly string[] = [];
const NO_OPTIONS: VerifyOptions = {};

/** `name`: that of a program built on the library, for its reports. */
export function createKeyrackWith<Resources = undefined>(
  options: KeyrackOptions<Resources>,
  ports: Ports = defaultPorts(),
  name?: string,
): Instance<Resources> {
  const settings = readOptions(options, name);
  const log = safeLog(options.log, ports.elapsed);
  if (isExposed(settings.url)) log("warn", "the secret key travels unencrypted: use https", { url: settings.url });
  const state = new PolicyState(settings, ports, log);
  const runtime = { client: new Client(settings, ports), settings, ports, log };
  const resources = options.resources ?? NO_RESOURCES;
  const verifier = new Verifier(state, settings, ports, log, options.log !== undefined, resources);
  const otel = openOtel(options, settings, log, () => readStatus(state, ports).ageMs);
  const reporter = new Reporter(runtime, (events) => otel?.dropped(events));
  const [tags, noted] = [new AddedTags(), new NotedVerdicts()];
  const [checker, idempotency] = [new CheckLimiter(runtime), new Idempotency(runtime)];
  const leases = new LeaseLimiter(runtime, checker);
  const cache = settings.cacheFile === null ? null : new CacheFile(settings.cacheFile, runtime, state);
  const waiters = new Waiters(ports, settings.url, () => state.current() !== null);

  const feed = new Feed(runtime, state, {
    confirmed(changed) {
      cache?.note(changed);
      waiters.resolve();
    },
    loading: () => waiters.loading(),
    failed(error) {
      // With a policy from the cache file, one failed refresh is enough to start with it.
      if (state.policy) waiters.resolve();
      else waiters.failed(runtime, error);
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
    ready: async (options) => waiters.wait(readTimeout(options, log)),
    verify: (key, options) => verifyKey(verifier, settings, noted, key, options) as Verdict<Resources>,
    tag: (context, added) => tags.add(context, added),
    report: reportWith({ reporter, otel, tags, noted, clientInfo, log }),
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
  if (typeof key !== "string" || key === "") return verifier.denyWithoutText(key);
  const { scopes = NO_SCOPES, failMode = settings.failMode, ip = null } = options ?? NO_OPTIONS;
  // Checked on every call: a misspelled `scope` would silently require no scopes.
  for (const name in options) {
    if (name !== "scopes" && name !== "failMode" && name !== "ip")
      throw new TypeError(`keyrack: verify has no option "${name}".`);
  }
  if (failMode !== "closed") readFailMode(failMode);
  const { all, any } = isTexts(scopes) ? { all: scopes, any: NO_GROUPS } : readScopes(scopes);
  const verdict = verifier.judge(key, 0, all, failMode, any, ip);
  const { outside, rejected } = verifier;
  return outside === null && rejected === null ? verdict : noted.note(verdict, outside, rejected);
}

/** Without a copy, unlike `readScopes`: for every call of verify. */
function isTexts(scopes: VerifyOptions["scopes"]): scopes is readonly string[] {
  if (!Array.isArray(scopes)) return false;
  for (let i = 0; i < scopes.length; i++) if (typeof scopes[i] !== "string") return false;
  return true;
}

type ReportParts = {
  reporter: Reporter;
  otel: Otel | null;
  tags: AddedTags;
  noted: NotedVerdicts;
  clientInfo: boolean;
  log: Log;
};

/** Called when a response has ended: must not throw, whatever the values are. */
function reportWith({ reporter, otel, tags, noted, clientInfo, log }: ReportParts): Keyrack["report"] {
  let isLogged = false;
  return (request) => {
    try {
      if (!isLogged && !request.context && !request.denial) {
        isLogged = true;
        log("warn", "report needs context or denial: without, the request counts as admitted and has no tenant", {});
      }
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

/** Completes the report of a caller that uses `verify` alone, as the guard would. */
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
