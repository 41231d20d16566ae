// Throttles: per-process windows that begin with their first use, keyed by what is throttled and for whom. They slow
// abuse of Keyrack itself down; the customers' rate limits, which never admit too much, are in src/ratelimit.
// Caution: a window that is forgotten early gives its subject a fresh start, and anyone could cause that with made-up
// subjects. So at the bound the owner that opened most windows gives one up; a network is then refused new ones until
// it would have expired.
import { createHmac } from "node:crypto";
import { FairSet } from "../../fairness/fair-set.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { networkOwner, type Owner } from "../../fairness/owners.ts";
import { fail, type Failure, type FailureName } from "../../kernel/errors.ts";
import { BoundedMap } from "../../kernel/bounded-map.ts";
import type { RateLimitState } from "../../kernel/ratelimit/headers.ts";
import type { Clock } from "../core/clock.ts";
import type { Vault } from "../vault/vault.ts";

export type Throttle = { name: string; limit: number; windowMs: number };

type Window = {
  readonly throttle: Throttle;
  readonly subject: string;
  readonly owner: Owner;
  readonly start: number;
  used: number;
};

/** An IPv6 customer has 65,536 networks of /64; together they get this many times the limit of one. */
const WIDE_FACTOR = 8;
/** Lapsed windows that are removed with each new one. */
const SWEPT_AT_ONCE = 8;
const CLOSED_MAX = 200_000;

export class Throttles {
  readonly #clock: Clock;
  readonly #enabled: boolean;
  /**
   * By the first part of the subject, then by throttle and the other parts: all windows of an address are found at
   * once.
   */
  readonly #windows = new Map<string, Map<string, Window>>();
  /** By length of the window, oldest first. */
  readonly #byLength = new Map<number, Set<Window>>();
  readonly #bounded: FairSet<Window>;
  /** Owners that gave up windows, and until when they may open none. */
  readonly #closed = new BoundedMap<string, number>({ max: CLOSED_MAX });

  constructor(clock: Clock, enabled: boolean, ledger: Ledger) {
    this.#clock = clock;
    this.#enabled = enabled;
    this.#bounded = new FairSet(ledger, (window) => this.#evicted(window), {
      // The subjects of a cell are a vendor's own customers and credentials: the largest cell may be one with many of
      // them.
      replacesOwn: ({ kind }) => kind === "cell",
    });
  }

  /** Takes one unit; throws when the window has none left. */
  take(throttle: Throttle, subject: string, owner: Owner): void {
    const refusal = this.tryTake(throttle, subject, owner);
    if (refusal) throw refusal;
  }

  /** Takes one unit of a network, and of the larger network that it is a part of. */
  takeOfNetwork(throttle: Throttle, network: string): void {
    const owner = networkOwner(network);
    for (const [each, subject] of networkThrottles(throttle, network)) this.take(each, subject, owner);
  }

  /**
   * Takes one unit; returns the refusal when the window has none left. `owner` is who can make up further subjects: the
   * network where no credential was checked, else the cell. A subject that owned itself would never be the largest
   * owner.
   */
  tryTake(throttle: Throttle, subject: string, owner: Owner): Failure | undefined {
    if (!this.#enabled || throttle.limit === 0) return undefined;
    const window = this.#window(throttle, subject, owner);
    if (!window || window.used >= throttle.limit) return this.refusal(throttle, window);
    if (++window.used >= throttle.limit) this.#bounded.hold(window); // it stays until it expires
    return undefined;
  }

  /** Returns a unit, for a use that must not count: a window begins with the first that does. */
  refund(throttle: Throttle, subject: string): void {
    const window = this.#find(throttle, subject);
    if (!window) return;
    if (window.used-- >= throttle.limit) this.#bounded.unhold(window);
    if (window.used === 0) this.#delete(window);
  }

  /** Resets every window whose subject begins with this key. */
  reset(key: string): void {
    for (const window of this.#windows.get(key)?.values() ?? []) this.#delete(window);
  }

  /** A 429 that says when the window ends. */
  refusal(
    throttle: Throttle,
    window: Pick<Window, "start" | "used"> = { start: this.#clock.steady(), used: throttle.limit },
    name: FailureName = "rate_limited",
  ): Failure {
    const resetMs = Math.max(1, window.start + throttle.windowMs - this.#clock.steady());
    const remaining = Math.max(0, throttle.limit - window.used);
    return limitRefusal(name, {
      id: throttle.name,
      limit: throttle.limit,
      windowMs: throttle.windowMs,
      remaining,
      resetMs,
    });
  }

  #find(throttle: Throttle, subject: string): Window | undefined {
    return this.#windows.get(headOf(subject))?.get(`${throttle.name} ${subject}`);
  }

  /** The subject's window; undefined if its owner may open none. */
  #window(throttle: Throttle, subject: string, owner: Owner): Window | undefined {
    const now = this.#clock.steady();
    const found = this.#find(throttle, subject);
    if (found && now < lapseOf(found)) return found;
    if (found) this.#delete(found);
    this.#sweep(now);
    if ((this.#closed.get(owner.id) ?? 0) > now) return undefined;
    const window = { throttle, subject, owner, start: now, used: 0 };
    return this.#bounded.add(owner, window) ? this.#insert(window) : undefined;
  }

  #insert(window: Window): Window {
    const { throttle, subject } = window;
    const head = headOf(subject);
    const windows = this.#windows.get(head) ?? new Map<string, Window>();
    this.#windows.set(head, windows.set(`${throttle.name} ${subject}`, window));
    const { windowMs } = throttle;
    this.#byLength.set(windowMs, (this.#byLength.get(windowMs) ?? new Set<Window>()).add(window));
    return window;
  }

  #delete(window: Window): void {
    this.#bounded.delete(window);
    this.#byLength.get(window.throttle.windowMs)?.delete(window);
    const head = headOf(window.subject);
    const windows = this.#windows.get(head);
    windows?.delete(`${window.throttle.name} ${window.subject}`);
    if (windows?.size === 0) this.#windows.delete(head);
  }

  #evicted(window: Window): void {
    this.#delete(window);
    const { id, kind } = window.owner;
    if (kind === "cell") return;
    this.#closed.set(id, Math.max(this.#closed.get(id) ?? 0, lapseOf(window)));
  }

  /** Windows of one length expire in the order in which they were opened. */
  #sweep(now: number): void {
    let left = SWEPT_AT_ONCE;
    for (const windows of this.#byLength.values()) {
      for (const window of windows) {
        if (left === 0) return;
        if (lapseOf(window) > now) break;
        left--;
        this.#delete(window);
      }
    }
  }
}

function lapseOf({ start, throttle }: Window): number {
  return start + throttle.windowMs;
}

function headOf(subject: string): string {
  const end = subject.indexOf(" ");
  return end < 0 ? subject : subject.slice(0, end);
}

/** The refusal of a window or budget that has too little left. */
export function limitRefusal(name: FailureName, rateLimit: RateLimitState): Failure {
  return fail(name, { retryAfterSeconds: rateLimit.resetMs / 1000, rateLimit });
}

/** The throttles that a network (IPv4 /24, IPv6 /64) is subject to, each with its subject. */
export function networkThrottles(throttle: Throttle, network: string): [Throttle, string][] {
  const wide = networkOwner(network).id;
  if (wide === network) return [[throttle, network]];
  return [
    [throttle, network],
    [{ ...throttle, limit: WIDE_FACTOR * throttle.limit }, wide],
  ];
}

/** Who is charged for a request without a credential. */
export function sourceOwner(from: { readonly network: string } | undefined): Owner {
  return networkOwner(from?.network ?? "");
}

/** A keyed hash of a throttled address or network, so that memory and database do not reveal who tried to log in. */
export function throttleKey({ vault }: { readonly vault: Vault }, text: string): string {
  return createHmac("sha256", vault.derive("throttle keys")).update(text).digest("hex");
}
