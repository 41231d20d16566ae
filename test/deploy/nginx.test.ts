// The nginx block of docs/operate.md with real nginx and server, and another port, certificate and upstream.
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { makeCertificate } from "../../harness/processes/certificate.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { nginxVersion, startNginx } from "../../harness/processes/nginx.ts";
import { startSeededServer } from "../../harness/processes/seeded-server.ts";
import { readText } from "../../harness/repository.ts";

describe.runIf(nginxVersion)("Keyrack behind the nginx of docs/operate.md", () => {
  it("is reached over TLS, and answers requests with a body", async () => {
    using temp = tempDir();
    const [, block = ""] = /^```nginx\n([\s\S]*?)^```$/m.exec(readText("docs/operate.md")) ?? [];
    const site = join(temp.dir, "keys.conf");
    writeFileSync(site, block);
    const { cert, key } = makeCertificate(temp.dir, "keys", "keys.example.com");
    await using server = await startSeededServer();
    const { url, secret_key } = server.seed;
    await using nginx = await startNginx(temp.dir, site, "443", {
      "http://127.0.0.1:4747": url,
      "/etc/ssl/keys.pem": cert,
      "/etc/ssl/keys.key": key,
    });
    const call = async (method: string, path: string, body = ""): Promise<[number | undefined, string]> => {
      const headers = { authorization: `Bearer ${secret_key}`, "content-type": "application/json" };
      const sent = request(nginx.url.replace("http:", "https:") + path, { method, headers, ca: readFileSync(cert) });
      const answered = once(sent.end(body), "response") as Promise<[IncomingMessage]>;
      const [response] = await answered;
      return [response.statusCode, await text(response)];
    };
    expect(await call("GET", "readyz")).toEqual([200, expect.stringContaining("ok")]);
    expect((await call("POST", "v1/tenants", '{"external_id":"behind-nginx"}'))[0]).toBe(201);
  });
});
