// Puts an instance together and takes it down again. The only place that knows all the rooms.
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { BadSetting, type Settings } from "../config/settings.ts";
import type { Bootstrap } from "./bootstrap.ts";
import { checkpointOrigin } from "../domain/audit/checkpoints.ts";
import { loadCounters } from "../domain/limits/ratelimit.ts";
import type { Services } from "../domain/core/context.ts";
import { ensureEmbedKeys } from "../domain/embed/signing-keys.ts";
import { finishRestore } from "../backup/after-restore.ts";
import { ensureCheckpointKey } from "../domain/vault/signing-keys.ts";
import { clientAddress } from "../http/address.ts";
import { createMetricsServer, RequestMetrics } from "../http/metrics.ts";
import { createHttpServer, type HttpServer } from "../http/server.ts";
import { readCertificate, renewCertificate } from "../http/tls.ts";
import { openInstance, type Closers, type InstanceOptions } from "./instance.ts";
import { StartRefused, toStartRefused } from "./start-refused.ts";
import { idleScheduler, startScheduler, type Scheduler } from "./scheduler.ts";
import { NIL_WORKSPACE } from "../kernel/audit/chain.ts";
import { listenOnOperatorSocket, type OperatorSocket } from "./operator-socket/server.ts";
import { endpoints } from "../api/index.ts";
import type { DataDirLock } from "../store/sqlite/lock.ts";

export type StartOptions = InstanceOptions & {
  /** Holds every answer against its schema. */
  checkOutput?: boolean;
};

export type RunningInstance = {
  readonly url: string;
  /** Where /metrics is; null when it is off. */
  readonly metricsUrl: string | null;
  readonly dataDir: string;
  readonly bootstrap: Bootstrap;
  readonly services: Services;
  readonly firstStart: boolean;
  /** Takes up the certificate files as they are now; null where the server speaks no TLS. */
  readonly reload: (() => void) | null;
  /** Resolves when nothing runs beside requests: mail that was queued has been tried. */
  idle(): Promise<void>;
  stop(): Promise<void>;
};

const STOP_GRACE_MS = 10_000;

export async function startInstance(options: StartOptions): Promise<RunningInstance> {
  const opened: Closers = [];
  try {
    return await compose(options, opened);
  } catch (error) {
    for (const close of opened.toReversed()) await close();
    throw toStartRefused(error);
  }
}

async function compose(options: StartOptions, opened: Closers): Promise<RunningInstance> {
  const { settings } = options;
  const { services, dir, lock, bootstrap } = await openInstance(options, opened, { bootstrap: true });
  await finishRestore(services);
  await ensureCheckpointKey(services);
  await checkpointOrigin(services, NIL_WORKSPACE); // the name in every checkpoint is fixed at the first start
  await loadCounters(services);
  await ensureEmbedKeys(services);
  const requestMetrics = settings.metrics ? new RequestMetrics(endpoints) : undefined;
  const { server, connections } = await listen(services, options, requestMetrics);
  const url = urlOf(server, settings);
  services.publicUrl ||= url;
  const metrics = requestMetrics && (await listenForMetrics(services, requestMetrics, server));
  const jobs = services.store.readOnly ? idleScheduler : startScheduler(services);
  const door = await listenOnOperatorSocket(services, dir);
  const stop = stopper({ server, connections, metrics, jobs, door, services, lock });
  const firstStart = services.store.applied.length > 0;
  const metricsUrl = metrics ? `http://${hostAndPort(metrics)}/metrics` : null;
  if (metricsUrl) services.log.info("metrics", { url: metricsUrl });
  const { tls_cert, tls_key } = settings;
  const reload = tls_cert ? (): void => renewCertificate(server, tls_cert, tls_key, services.log) : null;
  return { url, metricsUrl, dataDir: dir, bootstrap, services, firstStart, reload, idle: () => jobs.idle(), stop };
}

/** What listens already is closed again should this fail: the start is refused as a whole. */
async function listenForMetrics(services: Services, requests: RequestMetrics, main: Server): Promise<Server> {
  const { host, port } = services.settings.metrics ?? { host: "127.0.0.1", port: 0 };
  const server = createMetricsServer(services, requests, main);
  try {
    await listening(server, host, port, "KEYRACK_METRICS");
    return server;
  } catch (error) {
    main.close();
    throw error;
  }
}

async function listen(
  services: Services,
  options: StartOptions,
  metrics: RequestMetrics | undefined,
): Promise<HttpServer> {
  const { settings } = options;
  const { host, port, tls_cert, tls_key } = settings;
  if (Boolean(tls_cert) !== Boolean(tls_key)) throw new BadSetting("KEYRACK_TLS_CERT and KEYRACK_TLS_KEY go together.");
  const http = createHttpServer(services, endpoints, {
    checkOutput: options.checkOutput ?? false,
    metrics,
    addressOf: clientAddress(settings.trust_proxy),
    publicUrl: settings.public_url,
    fastLane: settings.fast_lane,
    tls: tls_cert ? readTls(tls_cert, tls_key) : undefined,
  });
  await listening(http.server, host, port, "--port");
  if (!tls_cert && !isLoopback(host)) {
    services.log.warn("listening without TLS beyond this machine: put a TLS proxy in front or set KEYRACK_TLS_CERT", {
      host,
    });
  }
  return http;
}

function readTls(tls_cert: string, tls_key: string): { cert: string; key: string } {
  try {
    return readCertificate(tls_cert, tls_key);
  } catch (error) {
    throw new BadSetting(`${(error as Error).message}.`);
  }
}

function listening(server: Server, host: string, port: number, setting: string): Promise<void> {
  return new Promise((resolved, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(cannotListen(error, host, port, setting)));
    server.listen(port, host, () => resolved());
  });
}

function cannotListen(
  { code, message }: NodeJS.ErrnoException,
  host: string,
  port: number,
  setting: string,
): StartRefused {
  if (code === "EADDRINUSE") return new StartRefused(`The port is already in use. Choose another with ${setting}.`, 2);
  return new StartRefused(`Cannot listen on ${host} port ${port}: ${code ?? message}.`, 2);
}

function isLoopback(host: string): boolean {
  return /^(127\.|::1$|localhost$)/.test(host);
}

function urlOf(server: Server, settings: Settings): string {
  const { port } = server.address() as AddressInfo;
  return `${settings.tls_cert ? "https" : "http"}://${bracketed(settings.host)}:${port}`;
}

function hostAndPort(server: Server): string {
  const { address, port } = server.address() as AddressInfo;
  return `${bracketed(address)}:${port}`;
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

type Parts = {
  server: Server;
  connections: HttpServer["connections"];
  metrics: Server | undefined;
  jobs: Scheduler;
  door: OperatorSocket;
  services: Services;
  lock: DataDirLock | undefined;
};

/** Stops accepting, answers whoever waits, finishes what is in flight, makes the last checkpoint, closes the database. */
function stopper({ server, connections, metrics, jobs, door, services, lock }: Parts): () => Promise<void> {
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    const closed = new Promise<void>((resolved) => server.close(() => resolved()));
    services.feed.stop();
    services.shutdown.abort(new Error("the instance is stopping"));
    const idle = setInterval(() => connections.endIdle(), 50);
    connections.endIdle();
    const late = setTimeout(() => server.closeAllConnections(), STOP_GRACE_MS);
    await closed;
    clearInterval(idle);
    clearTimeout(late);
    metrics?.close();
    metrics?.closeAllConnections();
    await door.close();
    await jobs.stop();
    await services.nodes.flushed();
    services.mail.transport.close();
    await services.counters.counter.close();
    services.claims.close();
    await services.store.close();
    lock?.release();
    services.log.info("stopped");
  };
  return () => (stopping ??= stop());
}
