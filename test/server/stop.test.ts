// Stopping: silent and idle connections do not delay it (requests in flight have five seconds).
import { once } from "node:events";
import { Server } from "node:http";
import { Server as TlsServer } from "node:https";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import { expect, it, vi } from "vitest";
import { makeCertificate } from "../../harness/processes/certificate.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";

it("a stop does not wait for connections without a request in flight", async () => {
  await using instance = await testInstance("sqlite");
  const silent = connect(Number(new URL(instance.url).port), "127.0.0.1");
  await once(silent, "connect");
  expect((await instance.call(null, "GET /healthz")).status).toBe(200);
  const closed = once(silent, "close");
  silent.resume();
  const forced = vi.spyOn(Server.prototype, "closeAllConnections");
  await instance.stop();
  await closed;
  expect(forced).not.toHaveBeenCalled();
});

it("a stop does not wait for a connection that never finishes its TLS handshake", async () => {
  using temp = tempDir();
  const { cert, key } = makeCertificate(temp.dir, "server", "localhost");
  await using instance = await testInstance("sqlite", { flags: { tls_cert: cert, tls_key: key } });
  const port = Number(new URL(instance.url).port);
  const silent = connect(port, "127.0.0.1");
  await once(silent, "connect");
  // Connections are accepted in order: once this one is secure, the server has the silent one.
  const secure = connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false });
  await once(secure, "secureConnect");
  const closed = Promise.all([once(silent.resume(), "close"), once(secure.resume(), "close")]);
  const forced = vi.spyOn(TlsServer.prototype, "closeAllConnections");
  await instance.stop();
  await closed;
  expect(forced).not.toHaveBeenCalled();
});
