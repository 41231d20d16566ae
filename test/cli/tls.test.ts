// TLS certificate files: SIGHUP loads a new certificate for new connections, and an invalid file changes nothing.
import { once } from "node:events";
import { copyFileSync, writeFileSync } from "node:fs";
import { connect, type TLSSocket } from "node:tls";
import { describe, expect, it } from "vitest";
import { startServer, type Running } from "../../harness/processes/server.ts";
import { makeCertificate } from "../../harness/processes/certificate.ts";
import { refusedServe, tempDir } from "../../harness/processes/cli.ts";

async function secure(url: string): Promise<TLSSocket> {
  const socket = connect({ host: "127.0.0.1", port: Number(new URL(url).port), rejectUnauthorized: false });
  await once(socket, "secureConnect");
  return socket;
}

/** The common name in the certificate of a new connection. */
async function servedName(url: string): Promise<string> {
  const socket = await secure(url);
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return String(CN);
}

/** Sends a request on an open connection and returns its status line. */
async function get(socket: TLSSocket): Promise<string> {
  socket.write("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
  const [chunk] = (await once(socket, "data")) as [Buffer];
  return chunk.toString().split("\r\n", 1)[0] ?? "";
}

/** Sends SIGHUP and waits for the log line about it. */
async function reload(server: Running, line: string): Promise<void> {
  const count = (): number => server.stderr().split(line).length - 1;
  const before = count();
  server.child.kill("SIGHUP");
  await expect.poll(count).toBe(before + 1);
}

describe("TLS", () => {
  it("loads new files on SIGHUP for new connections only, and keeps the old ones if they are invalid", async () => {
    using at = tempDir();
    const served = makeCertificate(at.dir, "served", "first");
    const next = makeCertificate(at.dir, "next", "second");
    const server = await startServer(["--data-dir", `${at.dir}/data`], {
      KEYRACK_TLS_CERT: served.cert,
      KEYRACK_TLS_KEY: served.key,
    });
    try {
      const { url } = server.ready;
      expect(url).toMatch(/^https:/);
      expect(await servedName(url)).toBe("first");
      const open = await secure(url);
      copyFileSync(next.cert, served.cert);
      copyFileSync(next.key, served.key);
      expect(await servedName(url)).toBe("first"); // not before SIGHUP
      await reload(server, "certificate reloaded");
      expect(await servedName(url)).toBe("second");
      expect(await get(open)).toBe("HTTP/1.1 200 OK"); // an open connection continues
      open.destroy();

      makeCertificate(at.dir, "third", "third");
      copyFileSync(`${at.dir}/third.crt`, served.cert); // its key is not there yet
      await reload(server, "the old one stays");
      writeFileSync(served.cert, "-----BEGIN CERTIFICATE-----\nnonsense");
      await reload(server, "the old one stays");
      expect(await servedName(url)).toBe("second");
      expect(server.stderr()).not.toContain("PRIVATE KEY");

      copyFileSync(`${at.dir}/third.crt`, served.cert);
      copyFileSync(`${at.dir}/third.key`, served.key);
      await reload(server, "certificate reloaded");
      expect(await servedName(url)).toBe("third");
    } finally {
      expect(await server.end("SIGTERM")).toBe(0);
    }
  });

  it("rejects files that do not match, and names the setting", async () => {
    using at = tempDir();
    const one = makeCertificate(at.dir, "one", "one");
    const other = makeCertificate(at.dir, "other", "other");
    const serve = (env: Record<string, string>) => refusedServe(["--port", "0", "--data-dir", `${at.dir}/data`], env);
    for (const [env, message] of [
      [{ KEYRACK_TLS_CERT: one.cert }, "KEYRACK_TLS_CERT and KEYRACK_TLS_KEY go together"],
      [
        { KEYRACK_TLS_CERT: one.cert, KEYRACK_TLS_KEY: other.key },
        "KEYRACK_TLS_CERT and KEYRACK_TLS_KEY cannot be used",
      ],
      [{ KEYRACK_TLS_CERT: `${at.dir}/none`, KEYRACK_TLS_KEY: one.key }, "KEYRACK_TLS_CERT cannot be used: ENOENT"],
    ] as const) {
      const { code, stderr } = await serve(env);
      expect([code, stderr.includes(message)], stderr).toEqual([2, true]);
    }
  });
});
