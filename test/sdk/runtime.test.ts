// The library on other runtimes: it imports nothing of Node, and works with Node's built-in modules hidden.

import { execFileSync } from "node:child_process";
import { createHash, createHmac } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it, vi } from "vitest";
import { hmacHexParts, sha256HexParts } from "../../src/sdk/hashing.ts";
import { createKeyrackWith } from "../../src/sdk/keyrack.ts";
import { encodeBase64, decodeBase64 } from "../../src/sdk/idempotency/replay.ts";
import { builtinModule } from "../../src/sdk/builtins.ts";
import { defaultPorts } from "../../src/sdk/runtime.ts";
import { idempotent, protect } from "../../src/sdk/adapters/fetch.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { patientPorts } from "../../harness/sdk/ports.ts";
import { DEADLINE_MS, until } from "../../harness/waiting.ts";

const src = fileURLToPath(new URL("../../src", import.meta.url));
const sdk = join(src, "sdk");

function* sources(dir: string): Generator<{ path: string; text: string }> {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) yield* sources(path);
    else yield { path, text: readFileSync(path, "utf8") };
  }
}

describe("the library's sources", () => {
  it("import only the kernel and themselves; of Node and frameworks, only types", () => {
    const wrong: string[] = [];
    for (const { path, text } of sources(sdk)) {
      for (const [line, typeOnly, target = ""] of text.matchAll(
        /^(?:import|export)\s+(type\s)?[^;]*?from\s+"([^"]+)"/gm,
      )) {
        const inside = target.startsWith(".") && /^(kernel|sdk)\//.test(relative(src, resolve(dirname(path), target)));
        if (!typeOnly && !inside) wrong.push(`${path}: ${line}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("print nothing and use no unsafe random numbers", () => {
    const unwanted = /console\.|Math\.random|process\.(stdout|stderr|exit|on)\b/;
    for (const { path, text } of sources(sdk)) expect(unwanted.test(text), path).toBe(false);
  });
});

describe("with Node's built-in modules hidden", () => {
  afterEach(() => vi.unstubAllGlobals());
  const hide = () => vi.stubGlobal("process", { ...process, getBuiltinModule: undefined, pid: undefined });

  it("hashes are the same", () => {
    const parts = ["a", new Uint8Array([1, 2, 3]), "é".repeat(100)];
    const bytes = Buffer.concat(parts.map((part) => Buffer.from(part)));
    const key = "k".repeat(100);
    hide();
    expect(builtinModule("node:crypto")).toBe(undefined);
    expect(sha256HexParts(parts)).toBe(createHash("sha256").update(bytes).digest("hex"));
    for (const secret of ["short", key]) {
      expect(hmacHexParts(secret, parts)).toBe(createHmac("sha256", secret).update(bytes).digest("hex"));
    }
    vi.stubGlobal("Buffer", undefined);
    const all = Uint8Array.from({ length: 1000 }, (_, i) => i & 255);
    expect(decodeBase64(encodeBase64(all))).toEqual(all);
  });

  it("verifies, limits, reports and replays", async () => {
    await using plane = await FakeControlPlane.start();
    const rule = { id: "r", limit: 5, window_ms: 60_000, algorithm: "fixed" as const, scope: "key" as const };
    const { key } = plane.mint({ rate_limits: [rule] });
    hide();
    const keyrack = createKeyrackWith(plane.options, patientPorts()); // made without Node, as defaultPorts() is
    await keyrack.ready();
    let runs = 0;
    const handler = idempotent(keyrack, () => Response.json({ run: ++runs }));
    const serve = protect(keyrack, {}, handler);
    const ask = () =>
      serve(
        new Request("http://app/pay?b=1&a=2", {
          method: "POST",
          body: "{}",
          headers: { "x-api-key": key, "idempotency-key": "k" },
        }),
      );
    expect(await (await ask()).json()).toEqual({ run: 1 });
    const again = await ask();
    expect([await again.json(), again.headers.get("idempotent-replayed")]).toEqual([{ run: 1 }, "true"]);
    expect(again.headers.get("ratelimit")).toMatch(/^"r";r=3;t=/);
    await keyrack.close();
    expect(plane.ingest.events.length).toBe(2);
    expect(plane.seen[0]?.query.get("node")).toMatch(/^node:0:[0-9a-f]{16}$/);
  });

  it("throws at once that a cache file needs a file system", () => {
    hide();
    expect(() =>
      createKeyrackWith(
        {
          url: "http://x",
          secretKey: new FakeControlPlane().secretKey,
          projectId: new FakeControlPlane().projectId,
          cacheFile: "f",
        },
        patientPorts(),
      ),
    ).toThrow(/cacheFile needs Node/);
  });
});

describe("the default ports", () => {
  it("draw from the system's random generator, within bounds and without repetition", () => {
    const { random } = defaultPorts();
    const drawn = Array.from({ length: 1000 }, () => random());
    expect(drawn.every((value) => value >= 0 && value < 1)).toBe(true);
    expect(new Set(drawn).size).toBeGreaterThan(990);
  });

  it("do not keep the process alive by background timers", async () => {
    const script = `import("${sdk}/runtime.ts").then(({ defaultPorts }) => {
      const ports = defaultPorts(); ports.after(600000, () => {}); ports.every(600000, () => {}); });`;
    execFileSync(process.execPath, ["-e", script], { timeout: DEADLINE_MS });
    const { after } = defaultPorts();
    let ran = 0;
    after(2 ** 40, () => ran++);
    const cancel = after(1, () => ran++);
    cancel();
    after(1, () => (ran += 10), true);
    await until(() => ran >= 10);
    expect(ran).toBe(10);
  });
});
