// Starts and stops an instance that serves requests. The only module that knows every layer.
import type { Server } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { endpoints } from "../api/index.ts";
import { finishRestore } from "../backup/after-restore.ts";
import { checkpointOrigin } from "../domain/audit/checkpoints.ts";
import type { Services } from "../domain/core/context.ts";
import { ensureEmbedKeys } from "../domain/embed/signing-keys.ts";
import { loadCounters } from "../domain/limits/ratelimit.ts";
import { loadSteadyLag } from "../domain/limits/steady-lag.ts";
import { ensureCheckpointKey } from "../domain/vault/signing-keys.ts";
import { listenForUnlocks } from "../domain/workspaces/operators.ts";
import { RequestMetrics } from "../http/metrics.ts";
import type { HttpServer } from "../http/server.ts";
import { reloadCertificate } from "../http/tls.ts";
import { NIL_WORKSPACE } from "../kernel/audit/chain.ts";
import type { Bootstrap } from "./bootstrap.ts";
import { openInstance, type InstanceOptions } from "./instance.ts";
import { apiUrl, listenForApi, listenForMetrics, metricsUrl } from "./listen.ts";
import { listenOnOperatorSocket, type OperatorSocket } from "./operator-socket/server.ts";
import { recordSettings } from "./settings-changes.ts";
import { idleScheduler, startScheduler, type Scheduler } from "./scheduler.ts";
import { placeOf, toStartRefused } from "./start-refused.ts";

export type StartOptions = InstanceOptions & {
  /** Validates every response against its schema. */
  checkOutput?: boolean;
  /** For tests only: the clock of the overload guard. */
  overloadClock?: (() => number) | undefined;
};

export type RunningInstance = {
  readonly url: string;
  /** Null when metrics are off. */
  readonly metricsUrl: string | null;
  readonly dataDir: string;
  readonly bootstrap: Bootstrap;
  readonly services: Services;
  readonly firstStart: boolean;
  /** Reads the certificate files again; null without TLS. */
  readonly reload: (() => void) | null;
  /** Resolves when no job is running: queued mail has been attempted. */
  idle(): Promise<void>;
  stop(): Promise<void>;
};

/** After this the store is closed: an init system kills a process that takes longer than 10 s to stop. */
const STOP_MS = 9_500;
const REQUESTS_MS = 6_500;
const IDLE_CHECK_MS = 50;

export async function startInstance(options: StartOptions): Promise<RunningInstance> {
  const opened = new AsyncDisposableStack();
  try {
    return await start(options, opened);
  } catch (error) {
    await opened.disposeAsync().catch(() => {}); // the first error says why
    throw toStartRefused(error, placeOf(options.settings));
  }
}

async function start(options: StartOptions, opened: AsyncDisposableStack): Promise<RunningInstance> {
  const { settings } = options;
  const { services, dir, bootstrap } = await openInstance(options, opened, { bootstrap: true });
  listenForUnlocks(services);
  await finishRestore(services);
  await recordSettings(services);
  await ensureCheckpointKey(services);
  await checkpointOrigin(services, NIL_WORKSPACE); // stores the origin of all checkpoints on the first start
  await loadSteadyLag(services);
  await loadCounters(services);
  await ensureEmbedKeys(services);
  const requestMetrics = settings.metrics ? new RequestMetrics(endpoints) : undefined;
  const { checkOutput = false, overloadClock } = options;
  const listening = listenForApi(services, settings, { checkOutput, overloadClock, metrics: requestMetrics });
  const { server, connections } = await listening;
  const url = apiUrl(server, settings);
  services.publicUrl ||= url;
  const metrics = requestMetrics && (await listenForMetrics(services, requestMetrics, server));
  if (metrics) services.log.info("metrics", { url: metricsUrl(metrics) });
  const scheduler = services.store.readOnly ? idleScheduler : startScheduler(services);
  const socket = await listenOnOperatorSocket(services, dir);
  const { tls_cert, tls_key } = settings;
  return {
    url,
    metricsUrl: metrics ? metricsUrl(metrics) : null,
    dataDir: dir,
    bootstrap,
    services,
    firstStart: services.store.created,
    reload: tls_cert ? () => reloadCertificate(server, tls_cert, tls_key, services.log) : null,
    idle: () => scheduler.idle(),
    stop: stopOnce({ server, connections, metrics, scheduler, socket, services, opened }),
  };
}

type Parts = {
  server: Server;
  connections: HttpServer["connections"];
  metrics: Server | undefined;
  scheduler: Scheduler;
  socket: OperatorSocket;
  services: Services;
  opened: AsyncDisposableStack;
};

function stopOnce(parts: Parts): () => Promise<void> {
  let stopping: Promise<void> | undefined;
  return () => (stopping ??= stop(parts));
}

/** Stops accepting, ends long polls and backups, drains requests, ends jobs, and then closes what was opened. */
async function stop({ server, connections, metrics, scheduler, socket, services, opened }: Parts): Promise<void> {
  const deadline = performance.now() + STOP_MS;
  const inTime = (step: Promise<unknown>): Promise<unknown> =>
    Promise.race([step, delay(Math.max(0, deadline - performance.now()), undefined, { ref: false })]);
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  services.feed.stop();
  services.credentialCache.stop();
  services.shutdown.abort(new Error("the instance is stopping"));
  for (const waiting of [services.waitingReceipts, services.waitingHolders])
    for (const receipt of waiting) receipt.end();
  const idleCheck = setInterval(() => connections.endIdle(), IDLE_CHECK_MS);
  connections.endIdle();
  const grace = setTimeout(() => server.closeAllConnections(), REQUESTS_MS);
  await inTime(closed);
  clearInterval(idleCheck);
  clearTimeout(grace);
  metrics?.close();
  metrics?.closeAllConnections();
  await inTime(socket.close());
  await inTime(scheduler.stop()); // makes the last checkpoint and saves the counters
  await inTime(services.nodes.flushed());
  await inTime(services.quotas.close());
  await opened.disposeAsync(); // the store and the lock last
  services.securityLog.flush();
  services.log.info("stopped");
}
