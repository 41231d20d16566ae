// Opens the listeners: the API, with TLS if it is configured, and /metrics on an address of its own.
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { endpoints } from "../api/index.ts";
import { isLoopback } from "../config/exposure.ts";
import { isHolderPlane } from "../http/access.ts";
import { bracketed, serverUrl } from "../config/server-url.ts";
import { BadSetting, type Settings } from "../config/settings.ts";
import type { Services } from "../domain/core/context.ts";
import { clientAddresses } from "../http/address.ts";
import { createMetricsServer, type RequestMetrics } from "../http/metrics.ts";
import { createHttpServer, type HttpOptions, type HttpServer } from "../http/server.ts";
import { readCertificate } from "../http/tls.ts";
import { ExitError } from "../kernel/exit-error.ts";
import { listen, listenProblem } from "../platform/listen.ts";

type ApiOptions = Pick<HttpOptions, "checkOutput" | "metrics" | "overloadClock">;

export async function listenForApi(services: Services, settings: Settings, options: ApiOptions): Promise<HttpServer> {
  const { host, port, tls_cert, tls_key } = settings;
  const served = endpoints.filter((each) => services.settings.holder_plane || !isHolderPlane(each.access));
  const http = createHttpServer(services, served, {
    ...options,
    ...clientAddresses(settings.trust_proxy),
    publicUrl: settings.public_url,
    fastLane: settings.fast_lane,
    tls: tls_cert ? readTls(tls_cert, tls_key) : undefined,
  });
  await listenOrRefuse(services, http.server, { host, port, backlog: settings.connections_max }, "--port");
  if (!tls_cert && !isLoopback(host)) {
    services.log.warn("listening without TLS beyond this machine: put a TLS proxy in front or set KEYRACK_TLS_CERT", {
      host,
    });
  }
  return http;
}

/** Closes the API's listener when this one cannot open: the start is refused as a whole. */
export async function listenForMetrics(services: Services, requests: RequestMetrics, api: Server): Promise<Server> {
  const { host, port } = services.settings.metrics ?? { host: "127.0.0.1", port: 0 };
  const server = createMetricsServer(services, requests, api);
  try {
    await listenOrRefuse(services, server, { host, port }, "KEYRACK_METRICS");
    return server;
  } catch (error) {
    api.close();
    throw error;
  }
}

function readTls(tls_cert: string, tls_key: string): { cert: string; key: string } {
  try {
    return readCertificate(tls_cert, tls_key);
  } catch (error) {
    throw new BadSetting(`${(error as Error).message}.`);
  }
}

type Address = {
  host: string;
  port: number;
  /**
   * Connections that may wait to be accepted. Node's 511 is too few for a fleet that reconnects at once: the kernel
   * resets what exceeds it. The kernel's own limit (net.core.somaxconn) applies too.
   */
  backlog?: number;
};

async function listenOrRefuse({ log }: Services, server: Server, address: Address, setting: string): Promise<void> {
  const { host, port } = address;
  const onError = ({ message }: Error): void => log.error("a connection was not accepted", { host, error: message });
  try {
    await listen(server, address, onError);
  } catch (error) {
    throw new ExitError(...listenProblem(error, host, port, setting));
  }
}

export function apiUrl(server: Server, settings: Settings): string {
  return serverUrl(settings, (server.address() as AddressInfo).port);
}

export function metricsUrl(server: Server): string {
  const { address, port } = server.address() as AddressInfo;
  return `http://${bracketed(address)}:${port}/metrics`;
}
