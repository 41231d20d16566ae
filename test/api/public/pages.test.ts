// The pages as served: an index that is never cached, assets that are cached forever, and nothing else.
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { builtPages } from "../../../src/http/assets.ts";
import { expectRefusal, testInstance, type TestInstance } from "../../../harness/instances/test-instance.ts";

const WEB = new URL("../../../dist/web/", import.meta.url);
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

describe("the mail-link pages over HTTP", () => {
  let r: TestInstance;
  const names = readdirSync(new URL("assets", WEB));
  beforeAll(async () => {
    r = await testInstance("sqlite");
  });
  afterAll(() => r[Symbol.asyncDispose]());

  it("are one uncached page under the strict content security policy", async () => {
    for (const [as, path] of [
      [null, "/"],
      [null, "/?utm=x&utm=y"],
      ["krses_ended", "/"],
    ] as const) {
      const reply = await r.call(as, `GET ${path}`);
      expect(reply.status).toBe(200);
      expect(reply.text).toBe(readFileSync(new URL("index.html", WEB), "utf8"));
      expect(Object.fromEntries(reply.headers)).toMatchObject({
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": POLICY,
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
      });
      expect(reply.headers.has("set-cookie")).toBe(false);
    }
  });

  it("reference only existing assets, named by their hash", async () => {
    const { text } = await r.call(null, "GET /");
    const named = [...text.matchAll(/(?:href|src)="\.\/assets\/([^"]+)"/g)].map(([, name = ""]) => name);
    expect(new Set(named)).toEqual(new Set(names));
    for (const name of names) {
      expect(name).toMatch(/^(main|styles)-[A-Z0-9]{8}\.(js|css)$/);
      const reply = await r.call(null, `GET /assets/${name}`);
      expect(reply.status).toBe(200);
      expect(reply.text).toBe(readFileSync(new URL(`assets/${name}`, WEB), "utf8"));
      expect(reply.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(reply.headers.get("content-type")).toBe(
        name.endsWith(".js") ? "text/javascript; charset=utf-8" : "text/css; charset=utf-8",
      );
    }
  });

  it("respond to HEAD with the same headers and no body", async () => {
    for (const path of ["/", `/assets/${names[0]}`]) {
      const [get, head] = [await r.call(null, `GET ${path}`), await r.call(null, `HEAD ${path}`)];
      expect([head.status, head.text]).toEqual([200, ""]);
      for (const name of ["content-length", "content-type", "cache-control", "content-security-policy"])
        expect(head.headers.get(name)).toBe(get.headers.get(name));
    }
  });

  it("serve nothing but what was built", async () => {
    for (const name of ["none.js", "..%2findex.html", "%2e%2e%2fportal.js", "..%2f..%2f..%2fpackage.json", "%00"])
      expectRefusal(await r.call(null, `GET /assets/${name}`), 404, "not_found");
    for (const path of ["/assets", "/assets/", "/index.html", "/assets/a/b.js"])
      expectRefusal(await r.call(null, `GET ${path}`), 404, "not_found");
    expectRefusal(await r.call(null, "POST /", {}), 405, "method_not_allowed");
  });

  it("say what to do where nothing was built", () => {
    const { status, body, headers } = builtPages("dist/nowhere").index();
    expect([status, body]).toEqual([503, "The pages were not built. Run npm run prepare on the server.\n"]);
    expect(headers).toMatchObject({ "content-type": "text/plain; charset=utf-8", "retry-after": "60" });
    expect(builtPages("dist/nowhere").asset("main.js")).toBeNull();
  });

  it("parse no markup, touch no storage and hold no inline script or style", () => {
    const script = readFileSync(new URL(`assets/${names.find((name) => name.endsWith(".js"))}`, WEB), "utf8");
    expect(script).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/);
    expect(script).not.toMatch(/localStorage|sessionStorage|indexedDB|\.cookie\b/);
    const page = readFileSync(new URL("index.html", WEB), "utf8");
    expect(page).not.toMatch(/<style|<script>| style=| on\w+=/);
  });
});
