// OpenTelemetry: attributes on the active span, a span around limit checks, and four metrics. The vendor passes the API
// it uses; the library imports none. Ids are attributes of spans only: as labels of metrics they would be without
// bound. An exception of the API is logged once and changes nothing.

import type { Env } from "../kernel/credentials.ts";
import type { Subject } from "./context.ts";
import type { Log } from "./runtime.ts";
import { SDK_NAME, SDK_VERSION } from "./version.ts";

type Attributes = Record<string, string | number | boolean>;
type Span = { setAttributes(attributes: Attributes): unknown; end(): void };
type Instrument = { unit?: string; description?: string };
type Meter = {
  createCounter(name: string, options?: Instrument): { add(value: number, attributes?: Attributes): void };
  createHistogram(name: string, options?: Instrument): { record(value: number): void };
  createObservableGauge(name: string, options?: Instrument): Gauge;
};
type ReadGauge = (result: { observe(value: number): void }) => void;
type Gauge = { addCallback(read: ReadGauge): void; removeCallback?(read: ReadGauge): void };

/** The part of `@opentelemetry/api` that is used: `import * as otel from "@opentelemetry/api"`. */
export type OtelApi = {
  readonly SpanKind: { readonly CLIENT: number };
  readonly trace: {
    getActiveSpan(): Span | undefined;
    getTracer(name: string, version?: string): { startSpan(name: string, options?: { kind?: number }): Span };
  };
  readonly metrics: { getMeter(name: string, version?: string): Meter };
};

type Decision = { subject: Subject | null; denial: string | null; degraded: boolean };

type OtelOptions = {
  api: OtelApi;
  projectId: string;
  env: Env | null;
  log: Log;
  policyAgeMs: () => number | null;
};

export class Otel {
  readonly #options: OtelOptions;
  readonly #requests;
  readonly #duration;
  readonly #dropped;
  readonly #age: Gauge;
  readonly #readAge: ReadGauge;
  #logged = false;

  private constructor(options: OtelOptions) {
    this.#options = options;
    const meter = options.api.metrics.getMeter(SDK_NAME, SDK_VERSION);
    this.#requests = meter.createCounter("keyrack.requests", { description: "Requests decided, by outcome." });
    this.#duration = meter.createHistogram("keyrack.limits.duration", {
      unit: "s",
      description: "Duration of limit checks and leases.",
    });
    this.#dropped = meter.createCounter("keyrack.events.dropped", { description: "Events that were not reported." });
    this.#age = meter.createObservableGauge("keyrack.policy.age", { unit: "s", description: "Age of the policy." });
    this.#readAge = (result) => {
      const ageMs = options.policyAgeMs();
      if (ageMs !== null) result.observe(ageMs / 1_000);
    };
    this.#age.addCallback(this.#readAge);
  }

  /** The application's meter outlives this instance, and with the callback the policy would. */
  close(): void {
    this.#try(() => this.#age.removeCallback?.(this.#readAge));
  }

  /** Null if the API cannot be used. */
  static open(options: OtelOptions): Otel | null {
    try {
      return new Otel(options);
    } catch (error) {
      logFailure(options.log, error);
      return null;
    }
  }

  decided({ subject, denial, degraded }: Decision): void {
    this.#try(() => {
      const { api, projectId, env } = this.#options;
      const outcome = denial ?? "allowed";
      const where = subject?.env ?? env ?? "live";
      this.#requests.add(1, { outcome, env: where });
      api.trace.getActiveSpan()?.setAttributes({
        ...(subject?.keyId && { "keyrack.key_id": subject.keyId }),
        ...(subject?.tenantId && { "keyrack.tenant_id": subject.tenantId }),
        "keyrack.project_id": projectId,
        "keyrack.env": where,
        "keyrack.outcome": outcome,
        "keyrack.degraded": degraded,
      });
    });
  }

  dropped(events: number): void {
    this.#try(() => this.#dropped.add(events));
  }

  /** Runs `check` in a span of its own. */
  async limits<T>(check: () => Promise<T>): Promise<T> {
    const { api } = this.#options;
    const began = performance.now();
    const span = this.#try(() =>
      api.trace.getTracer(SDK_NAME, SDK_VERSION).startSpan("keyrack.limits", { kind: api.SpanKind.CLIENT }),
    );
    try {
      return await check();
    } finally {
      this.#try(() => {
        span?.end();
        this.#duration.record((performance.now() - began) / 1_000);
      });
    }
  }

  #try<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      if (!this.#logged) logFailure(this.#options.log, error);
      this.#logged = true;
      return undefined;
    }
  }
}

function logFailure(log: Log, error: unknown): void {
  log("warn", "OpenTelemetry failed; requests are not affected", { why: String(error) });
}
