// The dashboard as served: an index that is never cached, assets that are cached forever, and nothing else.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { request, type IncomingHttpHeaders } from "node:http";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { builtPages } from "../../../src/http/assets.ts";
import { expectRefusal, sharedInstance } from "../../../harness/instances/test-instance.ts";

const WEB = new URL("../../../dist/web/", import.meta.url);
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const TYPES: Record<string, string> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

describe("the dashboard over HTTP", () => {
  const instance = sharedInstance("sqlite");
  const names = readdirSync(new URL("assets", WEB)).filter((name) => !/\.(br|gz)$/.test(name));

  it("are one uncached page under the strict content security policy", async () => {
    for (const [as, path] of [
      [null, "/"],
      [null, "/?utm=x&utm=y"],
      ["krses_ended", "/"],
    ] as const) {
      const reply = await instance.call(as, `GET ${path}`);
      expect(reply.status).toBe(200);
      const build = builtPages().build();
      expect(build).toMatch(/^[0-9a-f]{12}$/);
      // A page knows its build, which GET /v1/instance names too.
      expect(reply.text === readFileSync(new URL("index.html", WEB), "utf8").replace("{build}", build)).toBe(true);
      expect(reply.text.includes(`<meta name="build" content="${build}">`)).toBe(true);
      expect(Object.fromEntries(reply.headers)).toMatchObject({
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": POLICY,
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
      });
      expect(reply.headers.has("set-cookie")).toBe(false);
    }
  });

  it("reference only existing assets, named by their hash", async () => {
    const { text } = await instance.call(null, "GET /");
    const named = [...text.matchAll(/(?:href|src)="\.\/assets\/([^"]+)"/g)].map(([, name = ""]) => name);
    // One script and one style sheet: an open tab never asks for a part that an upgrade has removed.
    expect(named.map((name) => name.slice(name.lastIndexOf("."))).toSorted()).toEqual([".css", ".js", ".svg"]);
    expect(named.toSorted()).toEqual(names.toSorted());
    for (const name of names) {
      expect(name).toMatch(/^(main|icon)-[A-Z0-9]{8}\.(js|css|svg)$/);
      const reply = await instance.call(null, `GET /assets/${name}`);
      expect(reply.status).toBe(200);
      expect(reply.text === readFileSync(new URL(`assets/${name}`, WEB), "utf8"), name).toBe(true);
      expect(reply.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(reply.headers.get("content-type")).toBe(TYPES[name.slice(name.lastIndexOf("."))]);
    }
  });

  it("respond to HEAD with the same headers and no body", async () => {
    for (const path of ["/", `/assets/${names[0]}`]) {
      const [get, head] = [await instance.call(null, `GET ${path}`), await instance.call(null, `HEAD ${path}`)];
      expect([head.status, head.text]).toEqual([200, ""]);
      for (const name of ["content-length", "content-type", "cache-control", "content-security-policy"])
        expect(head.headers.get(name)).toBe(get.headers.get(name));
    }
  });

  it("serve nothing but what was built", async () => {
    for (const name of ["none.js", "..%2findex.html", "%2e%2e%2fportal.js", "..%2f..%2f..%2fpackage.json", "%00"])
      expectRefusal(await instance.call(null, `GET /assets/${name}`), 404, "not_found");
    for (const path of ["/assets", "/assets/", "/index.html", "/assets/a/b.js"])
      expectRefusal(await instance.call(null, `GET ${path}`), 404, "not_found");
    expectRefusal(await instance.call(null, "POST /", {}), 405, "method_not_allowed");
  });

  it("say what to do where nothing was built", () => {
    const { status, body, headers } = builtPages("dist/nowhere").index();
    expect([status, body]).toEqual([503, "The dashboard was not built. Run npm ci in the checkout.\n"]);
    expect(headers).toMatchObject({ "content-type": "text/plain; charset=utf-8", "retry-after": "60" });
    expect(builtPages("dist/nowhere").asset("main.js")).toBeNull();
  });

  it("are compressed as the client accepts it, and always available uncompressed", async () => {
    const name = names.find((each) => each.endsWith(".js")) ?? "";
    const file = readFileSync(new URL(`assets/${name}`, WEB));
    const DECODE = { br: brotliDecompressSync, gzip: gunzipSync, identity: (bytes: Buffer) => bytes };
    const ROWS = [
      ["br, gzip", "br"],
      ["gzip, deflate, br;q=0.9", "gzip"],
      ["gzip;q=0.5, br;q=0.5", "br"],
      ["br;q=0, gzip", "gzip"],
      ["BR", "br"],
      ["*", "br"],
      ["*;q=0", "identity"],
      ["br;q=0, gzip;q=0", "identity"],
      ["identity;q=1, br;q=0.5", "identity"],
      ["identity, br", "br"],
      ["identity", "identity"],
      ["deflate", "identity"],
      ["", "identity"],
    ] as const;
    for (const [accepted, coding] of ROWS) {
      for (const method of ["GET", "HEAD"]) {
        const reply = await rawGet(`${instance.url}/assets/${name}`, method, accepted);
        expect([accepted, reply.headers["content-encoding"] ?? "identity"]).toEqual([accepted, coding]);
        expect(reply.headers.vary).toBe("accept-encoding");
        const stored = statSync(new URL(`assets/${name}${ENDINGS[coding]}`, WEB)).size;
        expect(Number(reply.headers["content-length"])).toBe(stored);
        if (method === "GET") expect(DECODE[coding](reply.body).equals(file)).toBe(true);
      }
    }
  });

  it("hold no inline script or style", () => {
    const page = readFileSync(new URL("index.html", WEB), "utf8");
    expect(page).not.toMatch(/<style|<script>| style=| on\w+=/);
  });
});

const ENDINGS = { br: ".br", gzip: ".gz", identity: "" } as const;

/** Without the decompression that fetch adds. */
function rawGet(
  url: string,
  method: string,
  accepted: string,
): Promise<{ headers: IncomingHttpHeaders; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers: { "accept-encoding": accepted }, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => resolve({ headers: response.headers, body: Buffer.concat(chunks) }));
    });
    sent.on("error", reject);
    sent.end();
  });
}
