// install.sh --from https://…, with curl and with wget: downloads, verifies, and never leaves https.
import { createServer as createHttpServer, type Server } from "node:http";
import { createServer } from "node:https";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeCertificate } from "../../harness/processes/certificate.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { machine, PROGRAMS } from "../../harness/release/machine.ts";
import { root } from "../../harness/repository.ts";
import { writeSmallRelease } from "../../harness/release/small-release.ts";
import { snapshot } from "../../harness/release/snapshot.ts";
import { SshKey } from "../../harness/release/ssh-key.ts";
import { flipBit } from "../../harness/release/tampering.ts";
import { releasedInstallScript } from "../../tools/release/install-script.ts";

const key = new SshKey();
const tarball = `keyrack-1.2.3-linux-${process.arch === "arm64" ? "arm64" : "x64"}.tar.gz`;
const script = releasedInstallScript(readFileSync(join(root, "install.sh"), "utf8"), key.line);

let temp: ReturnType<typeof tempDir>;
let servers: Server[] = [];
let url: string;
/** Paths that were asked for without TLS. */
const plain: string[] = [];

/**
 * Serves /good and /bad; /cut ends early, /broken fails, /lost fails for the signature. /moved redirects to /good,
 * /plain to the server without TLS, /loop to itself.
 */
beforeAll(async () => {
  temp = tempDir();
  writeSmallRelease(join(temp.dir, "good"), { key });
  writeSmallRelease(join(temp.dir, "bad"), { key });
  flipBit(join(temp.dir, "bad", tarball));
  const { cert, key: certKey } = makeCertificate(temp.dir, "server", "localhost");
  writeFileSync(join(temp.dir, "wgetrc"), `ca_certificate = ${cert}\n`);
  const http = createHttpServer((request, response) => {
    plain.push(request.url ?? "");
    response.end(readFileSync(join(temp.dir, "good", basename(request.url ?? ""))));
  });
  const https = createServer({ cert: readFileSync(cert), key: readFileSync(certKey) }, (request, response) => {
    const [, folder = "", name = ""] = (request.url ?? "").split("/");
    const redirect = (to: string): void => void response.writeHead(302, { location: to }).end();
    if (folder === "moved") return redirect(`${url}/good/${name}`);
    if (folder === "loop") return redirect(`${url}/loop/${name}`);
    if (folder === "plain") return redirect(`http://127.0.0.1:${(http.address() as AddressInfo).port}/${name}`);
    if (folder === "broken" || (folder === "lost" && name.endsWith(".sig"))) return void response.writeHead(503).end();
    const file = join(temp.dir, ["cut", "lost"].includes(folder) ? "good" : folder, name);
    if (!existsSync(file)) return void response.writeHead(404).end();
    const content = readFileSync(file);
    if (folder === "cut" && name === tarball) {
      response.writeHead(200, { "content-length": content.length + 1 });
      return void response.write(content, () => response.destroy());
    }
    response.end(content);
  });
  servers = [http, https];
  for (const server of servers) await once(server.listen(0, "127.0.0.1"), "listening");
  url = `https://127.0.0.1:${(https.address() as AddressInfo).port}`;
});

afterAll(async () => {
  for (const server of servers) {
    server.close();
    server.closeAllConnections();
  }
  temp[Symbol.dispose]();
});

describe
  .runIf(hasTool("ssh-keygen", "downloading signed releases"))
  .each(["curl", "wget"].filter((name) => hasTool(name, `downloads with ${name}`)))(
  "install.sh --from https://…, with %s",
  (client) => {
    const trusted = (): Record<string, string> => ({
      CURL_CA_BUNDLE: join(temp.dir, "server.crt"),
      WGETRC: join(temp.dir, "wgetrc"),
    });
    const newMachine = () => machine({ script, programs: [...PROGRAMS, client] });

    for (const source of ["good", "good/", "moved", `good/${tarball}`])
      it(`installs from /${source}`, async () => {
        using m = newMachine();
        const ran = await m.run(["--from", `${url}/${source}`, "--require-signature"], trusted());
        expect(ran.code, ran.output).toBe(0);
        expect(m.installed()).toEqual(["1.2.3", null]);
      });

    for (const [source, why, code, reason] of [
      ["bad", "a changed tarball", 4, `${tarball}: its hash differs`],
      ["nowhere", "no release", 4, "SHA256SUMS: missing from"],
      ["plain", "a redirect to http", 1, "cannot download SHA256SUMS from"],
      ["loop", "an endless redirect", 1, "cannot download SHA256SUMS from"],
      ["cut", "a transfer that ends early", 1, `cannot download ${tarball} from`],
      ["broken", "a server that fails", 1, "cannot download SHA256SUMS from"],
      ["lost", "a signature that cannot be downloaded", 1, "cannot download SHA256SUMS.sig from"],
    ] as const)
      it(`refuses ${why} with exit ${code}, and changes nothing`, async () => {
        using m = newMachine();
        const before = snapshot(m.dir);
        const ran = await m.run(["--from", `${url}/${source}`], trusted());
        expect(ran.code, ran.output).toBe(code);
        expect(ran.output).toContain(reason);
        expect(snapshot(m.dir)).toEqual(before);
        expect(plain).toEqual([]);
      });

    it("refuses a server whose certificate is not trusted", async () => {
      using m = newMachine();
      const ran = await m.run(["--from", `${url}/good`]);
      expect([ran.code, ...m.installed()]).toEqual([1, null, null]);
      expect(ran.output).toMatch(/certificate/i);
    });

    it("names the reason where no server answers", async () => {
      using m = newMachine();
      const closed = createHttpServer();
      await once(closed.listen(0, "127.0.0.1"), "listening");
      const { port } = closed.address() as AddressInfo;
      await once(closed.close(), "close");
      const ran = await m.run(["--from", `https://127.0.0.1:${port}`], trusted());
      expect([ran.code, ...m.installed()]).toEqual([1, null, null]);
      expect(ran.output).toMatch(/refused|could not connect|failed to connect/i);
      expect(ran.output).toContain("cannot download SHA256SUMS from");
    });

    it("refuses a release whose signature was removed", async () => {
      using m = newMachine();
      writeSmallRelease(join(temp.dir, `stripped-${client}`), { key });
      rmSync(join(temp.dir, `stripped-${client}`, "SHA256SUMS.sig"));
      const ran = await m.run(["--from", `${url}/stripped-${client}`], trusted());
      expect([ran.code, ...m.installed()]).toEqual([4, null, null]);
      expect(ran.output).toContain("SHA256SUMS.sig: missing");
    });
  },
);

it("needs curl or wget for a URL, and says so", async () => {
  using m = machine({ script });
  expect(await m.run(["--from", url])).toMatchObject({
    code: 1,
    output: expect.stringContaining("neither curl nor wget"),
  });
});
