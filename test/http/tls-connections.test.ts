// The bound of connections over TLS: it holds from the first packet, whether or not the handshake is ever done.
import { once } from "node:events";
import { connect, type AddressInfo, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterEach, expect, it, onTestFinished } from "vitest";
import { testInstance, type TestInstance } from "../../harness/instances/test-instance.ts";
import { makeCertificate } from "../../harness/processes/certificate.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { until } from "../../harness/waiting.ts";
import { networkOwner } from "../../src/fairness/owners.ts";
import type { Ledger } from "../../src/fairness/ledger.ts";
import { clientAddresses } from "../../src/http/address.ts";
import { createHttpServer } from "../../src/http/server.ts";
import { readCertificate } from "../../src/http/tls.ts";
import { listen } from "../../src/platform/listen.ts";

const CONNECTIONS = 32;
const CROWD = "127.0.1.1";
const OTHER = "127.0.2.1";

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

async function instance(): Promise<{ r: TestInstance; ledger: Ledger }> {
  using temp = tempDir();
  const { cert, key } = makeCertificate(temp.dir, "server", "localhost");
  const flags = { tls_cert: cert, tls_key: key, connections_max: `${CONNECTIONS}` };
  const r = await testInstance("sqlite", { flags });
  return { r, ledger: r.app.services.shares.of("connections") };
}

const port = ({ url }: { url: string }): number => Number(new URL(url).port);

/** A connection that never starts its handshake. */
async function openSilent(r: { url: string }, localAddress: string): Promise<Socket> {
  const socket = connect({ port: port(r), host: "127.0.0.1", localAddress });
  sockets.push(socket);
  socket.on("error", () => {}).resume();
  await once(socket, "connect");
  return socket;
}

async function openSecure(r: TestInstance, localAddress: string): Promise<Socket> {
  const raw = connect({ port: port(r), host: "127.0.0.1", localAddress });
  const socket = connectTls({ socket: raw, rejectUnauthorized: false });
  sockets.push(socket, raw);
  await once(socket, "secureConnect");
  return socket;
}

async function get(socket: Socket): Promise<string> {
  socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  const [chunk] = (await once(socket, "data")) as [Buffer];
  return String(chunk).split("\r\n", 1)[0] ?? "";
}

it("a network with silent connections loses its own, and others are served", async () => {
  const { r, ledger } = await instance();
  await using _stopped = r;
  const used = (address: string): number => ledger.usedBy(networkOwner(address));
  const secure = await openSecure(r, OTHER);
  const crowd: Socket[] = [];
  for (let i = 0; i < 3 * CONNECTIONS; i++) crowd.push(await openSilent(r, CROWD));
  await until(() => crowd.filter(({ closed }) => !closed).length === CONNECTIONS - 1);
  expect([used(CROWD), used(OTHER)]).toEqual([CONNECTIONS - 1, 1]);
  const newcomer = await openSecure(r, OTHER);
  expect([await get(newcomer), await get(secure)]).toEqual(["HTTP/1.1 200 OK", "HTTP/1.1 200 OK"]);
  expect([used(CROWD), used(OTHER)]).toEqual([CONNECTIONS - 2, 2]);
});

it("a connection counts once before and after its handshake, and not any more once it fails or ends", async () => {
  const { r, ledger } = await instance();
  await using _stopped = r;
  const silent = await openSilent(r, CROWD);
  await until(() => ledger.used === 1);
  const secure = await openSecure(r, OTHER);
  expect(await get(secure)).toBe("HTTP/1.1 200 OK");
  expect(ledger.used).toBe(2);
  silent.write("GET / HTTP/1.1\r\n\r\n"); // no TLS
  await until(() => ledger.used === 1);
  secure.destroy();
  await until(() => ledger.used === 0);
});

it.each([true, false])("closes a connection whose handshake is not done in time, fast lane: %s", async (fastLane) => {
  await using r = await testInstance("sqlite");
  const { services } = r.app;
  using temp = tempDir();
  const { cert, key } = makeCertificate(temp.dir, "server", "localhost");
  const tls = readCertificate(cert, key);
  const options = { ...clientAddresses([]), publicUrl: null, checkOutput: true, fastLane, tls, handshakeMs: 50 };
  const { server } = createHttpServer(services, [], options);
  await listen(server, { host: "127.0.0.1", port: 0 }, () => {});
  onTestFinished(() => void server.close());
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const accepted = once(server, "connection");
  const [silent, begun] = [await openSilent({ url }, CROWD), await openSilent({ url }, OTHER)];
  await accepted;
  begun.write(Buffer.from([22, 3, 1, 2, 0, 1, 0, 1])); // the first bytes of a ClientHello
  await until(() => silent.closed && begun.closed);
  await expect.poll(() => services.shares.of("connections").used).toBe(0);
});
