// The portal's script as served: for pages of any origin, cached for five minutes, revalidated by etag.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { sharedInstance } from "../../../harness/instances/test-instance.ts";

const FILE = new URL("../../../dist/web/portal.js", import.meta.url);

describe("GET /embed/portal.js", () => {
  const instance = sharedInstance("sqlite");

  it("is the built file, readable from any origin, whatever the query", async () => {
    for (const path of ["/embed/portal.js", "/embed/portal.js?v=1&v=2"]) {
      const reply = await instance.call(null, `GET ${path}`, undefined, { headers: { origin: "https://any.example" } });
      expect(reply.status).toBe(200);
      expect(reply.text === readFileSync(FILE, "utf8")).toBe(true);
      expect(Object.fromEntries(reply.headers)).toMatchObject({
        "content-type": "text/javascript; charset=utf-8",
        "cache-control": "public, max-age=300",
        "access-control-allow-origin": "*",
        "cross-origin-resource-policy": "cross-origin",
        "x-content-type-options": "nosniff",
        etag: expect.stringMatching(/^"[0-9a-f]{32}"$/),
      });
    }
  });

  it("is not sent again to a client that has it", async () => {
    const etag = (await instance.call(null, "GET /embed/portal.js")).headers.get("etag") ?? "";
    for (const known of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
      const reply = await instance.call(null, "GET /embed/portal.js", undefined, {
        headers: { "if-none-match": known },
      });
      expect([reply.status, reply.text, reply.headers.get("etag")]).toEqual([304, "", etag]);
    }
    const other = await instance.call(null, "GET /embed/portal.js", undefined, { headers: { "if-none-match": '"x"' } });
    expect(other.status).toBe(200);
  });

  it("parses no markup, touches no storage and holds no inline style", () => {
    const text = readFileSync(FILE, "utf8");
    for (const unsafe of [
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/,
      /localStorage|sessionStorage|indexedDB|\.cookie\b/,
      /setAttribute\("style"|createElement\("style"/,
    ])
      expect(unsafe.exec(text)?.[0]).toBeUndefined();
  });
});
