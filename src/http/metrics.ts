// Request metrics, and /metrics on a listener of its own: it reveals how busy the vendor is, so it is never public.
import { createServer, type Server } from "node:http";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Actor } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { collectMetrics } from "../domain/health/metrics.ts";
import {
  CONTENT_TYPES,
  counter,
  formatMetrics,
  gauge,
  Histogram,
  type Family,
  type Format,
  type Sample,
} from "../kernel/exposition.ts";
import { errorFields } from "../platform/errors.ts";
import { LoopDelay } from "../platform/loop-delay.ts";
import { VERSION } from "../platform/version.ts";
import { isHolderPlane } from "./access.ts";
import type { Endpoint } from "./endpoint.ts";
import { defaultHeaders } from "./response.ts";

const NANO = 1e9;
const LAG_RESOLUTION_MS = 10;

const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30];
const CREDENTIALS = ["secret_key", "session", "embed_token", "api_key", "bootstrap"] as const;
const HOLDER_OUTCOMES: Record<number, string> = { 200: "ok", 401: "invalid", 403: "refused", 429: "throttled" };
const STATUS_MIN = 100;
const STATUS_CLASSES = ["1xx", "2xx", "3xx", "4xx", "5xx"] as const;

class RouteMetrics {
  readonly labels: { method: string; route: string };
  readonly statuses = new Float64Array(500);
  readonly seconds = STATUS_CLASSES.map(() => new Histogram(BUCKETS));

  constructor({ method, path }: Endpoint) {
    this.labels = { method, route: path };
  }
}

/** Counts requests by endpoint and status and measures them. Requests that reach no endpoint are not counted. */
export class RequestMetrics {
  readonly #routes: ReadonlyMap<Endpoint, RouteMetrics>;
  readonly #lateRefusals = new Map<Actor["kind"], number>(CREDENTIALS.map((kind) => [kind, 0]));

  constructor(endpoints: readonly Endpoint[]) {
    this.#routes = new Map(endpoints.map((endpoint) => [endpoint, new RouteMetrics(endpoint)]));
  }

  /** `startedAt` is a value of performance.now(). Allocates nothing. */
  count(endpoint: Endpoint, status: number, startedAt: number): void {
    const route = this.#routes.get(endpoint);
    if (!route) return;
    const at = status - STATUS_MIN;
    route.statuses[at] = (route.statuses[at] as number) + 1;
    route.seconds[Math.trunc(at / 100)]?.observe((performance.now() - startedAt) / 1_000);
  }

  /** A request was refused because its credential, of this kind, ended or lost rights after it began. */
  countLateRefusal(kind: Actor["kind"]): void {
    this.#lateRefusals.set(kind, (this.#lateRefusals.get(kind) ?? 0) + 1);
  }

  #holderOutcomes(): Sample[] {
    const outcomes: Record<string, number> = {};
    for (const [{ access }, { statuses }] of this.#routes) {
      if (!isHolderPlane(access)) continue;
      for (const [i, value] of statuses.entries()) {
        const outcome = HOLDER_OUTCOMES[i + STATUS_MIN] ?? "other";
        if (value > 0) outcomes[outcome] = (outcomes[outcome] ?? 0) + value;
      }
    }
    return Object.entries(outcomes).map(([outcome, value]) => ({ labels: { outcome }, value }));
  }

  families(): Family[] {
    const requests: Sample[] = [];
    const seconds: Sample[] = [];
    for (const route of this.#routes.values()) {
      for (const [i, value] of route.statuses.entries()) {
        if (value > 0) requests.push({ labels: { ...route.labels, status: String(i + STATUS_MIN) }, value });
      }
      for (const [i, histogram] of route.seconds.entries()) {
        if (histogram.count > 0)
          seconds.push(...histogram.samples({ ...route.labels, status: STATUS_CLASSES[i] ?? "" }));
      }
    }
    return [
      counter("keyrack_http_requests", "Requests with a response, by endpoint and status.", requests),
      counter("keyrack_holder_requests", "Requests of API keys about themselves, by outcome.", this.#holderOutcomes()),
      {
        name: "keyrack_http_request_duration_seconds",
        type: "histogram",
        help: "From the request's head to its response; long polls included.",
        samples: seconds,
      },
      counter(
        "keyrack_late_refusals",
        "Requests refused because their credential ended after they began, by its kind.",
        [...this.#lateRefusals].map(([kind, value]) => ({ labels: { kind }, value })),
      ),
    ];
  }
}

/** `main` is the server whose connections are counted. */
export function createMetricsServer(services: Services, requests: RequestMetrics, main: Server): Server {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });
  lag.enable();
  const delay = new LoopDelay();
  const scrape = async (format: Format): Promise<string> => {
    const connections = await new Promise<number>((resolve) => main.getConnections((_error, n) => resolve(n ?? 0)));
    const open = gauge("keyrack_http_connections", "Open connections.", connections);
    return formatMetrics(
      [
        ...processFamilies(services),
        ...lagFamilies(lag),
        delayFamily(delay),
        open,
        ...requests.families(),
        ...(await collectMetrics(services)),
      ],
      format,
    );
  };
  const headers = new Headers(defaultHeaders(null).fields);
  const server = createServer((req, res) => {
    res.setHeaders(headers);
    const path = req.url?.split("?", 1)[0];
    if (path !== "/metrics" || (req.method !== "GET" && req.method !== "HEAD")) {
      if (path === "/metrics") res.writeHead(405, { allow: "GET, HEAD" }).end();
      else res.writeHead(404).end();
      return;
    }
    const format = /application\/openmetrics-text/.test(req.headers.accept ?? "") ? "openmetrics" : "text";
    scrape(format).then(
      (text) => res.writeHead(200, { "content-type": CONTENT_TYPES[format] }).end(text),
      (error: unknown) => {
        services.log.error("metrics failed", errorFields(error));
        res.writeHead(500).end();
      },
    );
  });
  server.headersTimeout = server.requestTimeout = 10_000;
  server.on("close", () => {
    lag.disable();
    delay.stop();
  });
  return server;
}

function processFamilies({ store, settings }: Services): Family[] {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed } = process.memoryUsage();
  const about = { version: VERSION, database: store.dialect, region: settings.region };
  return [
    gauge("keyrack_build_info", "Always 1; its labels describe the running version.", [{ labels: about, value: 1 }]),
    gauge("process_start_time_seconds", "When this process started.", Math.round(performance.timeOrigin) / 1_000),
    counter("process_cpu_seconds", "CPU time used.", (user + system) / 1e6),
    gauge("process_resident_memory_bytes", "Memory in use.", rss),
    gauge("keyrack_heap_used_bytes", "Memory of the JavaScript heap in use.", heapUsed),
  ];
}

function delayFamily({ seconds }: LoopDelay): Family {
  const help = "How late a timer of 5 ms fires.";
  return { name: "keyrack_event_loop_delay_seconds", type: "histogram", help, samples: seconds.samples() };
}

/** Deprecated, because each scrape resets it: with two scrapers, each misses what the other has seen. */
function lagFamilies(lag: ReturnType<typeof monitorEventLoopDelay>): Family[] {
  const seconds = (nanos: number): number => Math.max(0, nanos / NANO - LAG_RESOLUTION_MS / 1_000);
  const places: [string, number][] = [
    ["p50", lag.percentile(50)],
    ["p99", lag.percentile(99)],
    ["max", lag.max],
  ];
  const samples = places.map(([at, nanos]) => ({ labels: { at }, value: lag.count === 0 ? 0 : seconds(nanos) }));
  lag.reset();
  const help =
    "Deprecated: use keyrack_event_loop_delay_seconds. How late timers fire, since the last scrape by anyone.";
  return [gauge("keyrack_event_loop_lag_seconds", help, samples)];
}
