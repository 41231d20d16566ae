// createKeyrack: puts the parts together and owns their life, from the first policy to close().
// Nothing here may throw after construction: a vendor's process must not end because a control plane did.

import { CacheFile } from "./feed/cache-file.ts";
import { CallError, Client } from "./client.ts";
import { DENIED, type Denied, type Verdict } from "./context.ts";
import { Feed } from "./feed/feed.ts";
import { Guard, type GuardDependencies } from "./guard.ts";
import { PolicyState } from "./feed/policy-state.ts";
import { Idempotency } from "./idempotency/idempotency.ts";
import { LeaseLimiter } from "./limits/leases.ts";
import { CheckLimiter } from "./limits/check.ts";
import { type KeyrackOptions, readFailMode, readOptions } from "./options.ts";
import { type Keyrack, INTERNALS, type VerifyOptions } from "./internals.ts";
import { Reporter } from "./report.ts";
import { defaultPorts, type Ports, safeLog } from "./runtime.ts";
import { Verifier } from "./verifier.ts";

/** The control plane has answered, and the answer is no: 400, 401, 403 or 404. */
export class KeyrackError extends Error {
  override name = "KeyrackError";
}

type Waiter = { resolve(): void; reject(error: Error): void };
const REFUSALS = new Set([400, 401, 403, 404]);
const NO_SCOPES: readonly string[] = [];
const NO_OPTIONS: VerifyOptions = {};

export function createKeyrackWith<Resources = undefined>(
  options: KeyrackOptions<Resources>,
  ports: Ports = defaultPorts(),
): Keyrack<Resources> {
  const settings = readOptions(options);
  const log = safeLog(options.log);
  if (isExposed(settings.url)) log("warn", "the secret key travels unencrypted: use https", { url: settings.url });
  const held = new PolicyState(settings, ports);
  const client = new Client(settings, ports);
  const resources = options.resources ?? { live: undefined, test: undefined };
  const verifier = new Verifier(held, settings, ports, log, options.log !== undefined, resources);
  const reporter = new Reporter(client, settings, ports, log);
  const checker = new CheckLimiter(client, settings, log);
  const leases = new LeaseLimiter(client, settings, ports, log, checker);
  const idempotency = new Idempotency(client, settings, ports, log);
  const cache = settings.cacheFile === null ? null : new CacheFile(settings.cacheFile, settings, ports, log, held);
  const waiters = new Waiters();

  const feed = new Feed(client, held, settings, ports, log, {
    confirmed(changed) {
      cache?.note(changed);
      waiters.resolve();
    },
    failed(error) {
      // With a policy from the cache file, one failed attempt to freshen it is enough to start with it.
      if (held.policy) waiters.resolve();
      else if (error instanceof CallError && REFUSALS.has(error.status)) waiters.reject(refusal(error));
    },
  });
  const started = (cache?.load() ?? Promise.resolve()).then(() => feed.start());

  const parts: GuardDependencies = { verifier, reporter, checker, leases, ports, failMode: settings.failMode };
  let closing: Promise<void> | null = null;
  const close = async () => {
    waiters.reject(new KeyrackError("keyrack was closed before its first policy came."));
    await started;
    await Promise.all([reporter.close(), leases.close(), idempotency.close(), feed.stop()]);
    await cache?.close();
    held.stop();
  };

  return {
    ready: ({ timeoutMs } = {}) => waiters.wait(ports, timeoutMs),
    verify: (key, options) => {
      if (typeof key !== "string" || key === "") return noKey(key);
      const { scopes = NO_SCOPES, failMode = settings.failMode } = options ?? NO_OPTIONS;
      // Checked on every call, because a wrong option here must not become an open door: `scope` would ask for none.
      for (const name in options) {
        if (name !== "scopes" && name !== "failMode") throw new TypeError(`keyrack: verify has no option "${name}".`);
      }
      if (!Array.isArray(scopes)) throw new TypeError("keyrack: scopes must be a list.");
      if (failMode !== "closed") readFailMode(failMode);
      return verifier.judge(key, 0, scopes, failMode) as Verdict<Resources>;
    },
    status: () => {
      const policy = held.current();
      const ageMs = policy ? Math.max(0, ports.now() - held.confirmedAt) : null;
      return { version: policy?.version ?? null, keys: policy?.keys.count ?? 0, ageMs, degraded: held.degraded };
    },
    close: () => (closing ??= close()),
    [INTERNALS]: { guard: (options) => new Guard(parts, options), idempotent: (options) => idempotency.route(options) },
  };
}

function isExposed(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname);
}

function noKey(key: unknown): Denied {
  return key === null || key === undefined || key === "" ? DENIED.missing_key : DENIED.invalid_key;
}

class Waiters {
  #ready = false;
  #waiting: Waiter[] = [];

  wait(ports: Ports, timeoutMs?: number): Promise<void> {
    if (this.#ready) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const late = () => reject(new KeyrackError(`keyrack has no policy after ${timeoutMs} ms.`));
      const cancel = timeoutMs === undefined ? () => {} : ports.after(timeoutMs, late, true);
      this.#waiting.push({
        resolve: () => (cancel(), resolve()),
        reject: (error) => (cancel(), reject(error)),
      });
    });
  }

  resolve(): void {
    this.#ready = true;
    for (const waiter of this.#waiting.splice(0)) waiter.resolve();
  }

  reject(error: Error): void {
    for (const waiter of this.#waiting.splice(0)) waiter.reject(error);
  }
}

function refusal(error: CallError): KeyrackError {
  const why: Record<number, string> = {
    401: "the secret key is not accepted",
    403: "the secret key may not read this project's policy",
    404: "there is no such project, or url is not a Keyrack",
  };
  const said = why[error.status] ?? "the request is not accepted";
  return new KeyrackError(`keyrack cannot start: ${said} (status ${error.status}).`);
}
