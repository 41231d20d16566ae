// /metrics on a listener of its own: it tells how busy the vendor is, so it never shares the public one.
import { createServer, type Server } from "node:http";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Services } from "../domain/core/context.ts";
import { collectMetrics } from "../domain/health/metrics.ts";
import { counter, formatMetrics, gauge, CONTENT_TYPES, type Family, type Format } from "../kernel/exposition.ts";
import { VERSION } from "../platform/version.ts";
import type { Meter } from "./request-metrics.ts";

const NANO = 1e9;
const LAG_RESOLUTION_MS = 10;

/** `main` is the server whose connections are counted. */
export function createMetricsServer(services: Services, meter: Meter, main: Server): Server {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });
  lag.enable();
  const scrape = async (format: Format): Promise<string> => {
    const connections = await new Promise<number>((resolve) => main.getConnections((_error, n) => resolve(n ?? 0)));
    const open = gauge("keyrack_http_connections", "Open connections.", connections);
    return formatMetrics(
      [
        ...processFamilies(services),
        ...lagFamilies(lag),
        open,
        ...meter.families(),
        ...(await collectMetrics(services)),
      ],
      format,
    );
  };
  const server = createServer((req, res) => {
    const path = req.url?.split("?", 1)[0];
    if (path !== "/metrics" || (req.method !== "GET" && req.method !== "HEAD")) {
      res.writeHead(path === "/metrics" ? 405 : 404).end();
      return;
    }
    const format = /application\/openmetrics-text/.test(req.headers.accept ?? "") ? "openmetrics" : "text";
    scrape(format).then(
      (text) => res.writeHead(200, { "content-type": CONTENT_TYPES[format] }).end(text),
      (error: unknown) => {
        services.log.error("metrics failed", { error: String(error) });
        res.writeHead(500).end();
      },
    );
  });
  server.headersTimeout = server.requestTimeout = 10_000;
  server.on("close", () => lag.disable());
  return server;
}

function processFamilies({ store, settings }: Services): Family[] {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed } = process.memoryUsage();
  const about = { version: VERSION, database: store.dialect, region: settings.region };
  return [
    gauge("keyrack_build_info", "Always 1; the labels tell what runs.", [{ labels: about, value: 1 }]),
    gauge("process_start_time_seconds", "When this process started.", Math.round(performance.timeOrigin) / 1_000),
    counter("process_cpu_seconds", "CPU time used.", (user + system) / 1e6),
    gauge("process_resident_memory_bytes", "Memory in use.", rss),
    gauge("keyrack_heap_used_bytes", "Memory of the JavaScript heap in use.", heapUsed),
  ];
}

/** Since the last scrape. */
function lagFamilies(lag: ReturnType<typeof monitorEventLoopDelay>): Family[] {
  const seconds = (nanos: number): number => Math.max(0, nanos / NANO - LAG_RESOLUTION_MS / 1_000);
  const places: [string, number][] = [
    ["p50", lag.percentile(50)],
    ["p99", lag.percentile(99)],
    ["max", lag.max],
  ];
  const samples = places.map(([at, nanos]) => ({ labels: { at }, value: lag.count === 0 ? 0 : seconds(nanos) }));
  lag.reset();
  return [gauge("keyrack_event_loop_lag_seconds", "How late timers fire, since the last scrape.", samples)];
}
