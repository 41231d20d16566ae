// The cache file: a vendor restarts while the control plane is down, and only an intact file of its own is used.

import { randomBytes } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatCredential } from "../../../src/kernel/credentials.ts";
import { Policy } from "../../../src/kernel/policy/policy.ts";
import { Client } from "../../../src/sdk/client.ts";
import { CacheFile } from "../../../src/sdk/feed/cache-file.ts";
import { PolicyState } from "../../../src/sdk/feed/policy-state.ts";
import { readOptions } from "../../../src/sdk/options.ts";
import type { Log } from "../../../src/sdk/runtime.ts";
import { FakeControlPlane } from "../../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../../harness/sdk/ports.ts";
import { until } from "../../../harness/waiting.ts";
import { startTestKeyrack } from "../../../harness/sdk/test-keyrack.ts";

let folder = "";
let serial = 0;
const fresh = () => join(folder, `policy-${serial++}`);
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "keyrack-cache-"));
});
afterAll(() => rm(folder, { recursive: true }));

const rule = { id: "per-minute", limit: 5, window_ms: 60_000, algorithm: "sliding" as const, scope: "key" as const };

describe("the cache file", () => {
  it("lets a vendor restart while the control plane is down, with every attribute of every key", async () => {
    await using plane = await FakeControlPlane.start();
    const cacheFile = fresh();
    const ports = new ManualPorts();
    const expires_at = new Date(ports.wall + 3_600_000).toISOString();
    const keys = Array.from({ length: 200 }, (_, i) =>
      plane.mint({ scopes: [`s${i % 7}`], env: i % 2 ? "live" : "test" }),
    );
    const limited = plane.mint({ expires_at, rate_limits: [rule] });
    const first = await startTestKeyrack({ plane, ports, options: { cacheFile } });
    const before = [...keys, limited].map(({ key }) => first.keyrack.verify(key));
    await first.keyrack.close();
    await plane.down();
    await using again = await startTestKeyrack({ plane, ports, options: { cacheFile } });
    expect([...keys, limited].map(({ key }) => again.keyrack.verify(key))).toEqual(before);
    expect(again.keyrack.verify(formatCredential("api_key", "live", randomBytes(24)))).toMatchObject({
      code: "invalid_key",
    });
    ports.setWall(30_001);
    expect(again.keyrack.verify(limited.key)).toMatchObject({ context: { degraded: true, rateLimit: null } });
  });

  it("prefers the control plane to the file when it is up", async () => {
    await using plane = await FakeControlPlane.start();
    const cacheFile = fresh();
    const { key } = plane.mint();
    const first = await startTestKeyrack({ plane, options: { cacheFile } });
    await first.keyrack.close();
    plane.revoke(key);
    const before = plane.seen.length;
    await using again = await startTestKeyrack({ plane, options: { cacheFile } });
    expect(again.keyrack.verify(key)).toMatchObject({ code: "invalid_key" });
    expect(plane.seen.slice(before).map(({ path }) => path)).not.toContain("/v1/policy/snapshot");
  });

  it("keeps the tag of its delta, so that a policy held in part acknowledges nothing after a restart", async () => {
    await using plane = await FakeControlPlane.start();
    const cacheFile = fresh();
    const first = await startTestKeyrack({ plane, options: { cacheFile } });
    const version = plane.feed.version + 1;
    plane.mint();
    await until(() => first.keyrack.status().version === version);
    await first.keyrack.close();
    const before = plane.seen.length;
    await using again = await startTestKeyrack({ plane, options: { cacheFile } });
    expect(again.keyrack.status().version).toBe(version);
    const polls = plane.seen.slice(before).filter(({ path }) => path === "/v1/policy/delta");
    expect(polls[0]?.headers["if-none-match"]).toMatch(new RegExp(`^W/"delta:.*:${version}"$`));
  });

  it("is readable by its owner only, written atomically, and leaves no temporary file", async () => {
    await using plane = await FakeControlPlane.start();
    const cacheFile = fresh();
    await writeFile(cacheFile, "something else");
    await chmod(cacheFile, 0o644);
    const instance = await startTestKeyrack({ plane, options: { cacheFile } });
    await instance.keyrack.close();
    expect((await stat(cacheFile)).mode & 0o777).toBe(0o600);
    expect((await readdir(folder)).filter((name) => name.endsWith(".tmp"))).toEqual([]);
    expect((await readFile(cacheFile, "latin1")).startsWith("keyrack-policy-3 ")).toBe(true);
  });

  it("replaces a symbolic link and never writes through it", async () => {
    await using plane = await FakeControlPlane.start();
    const [cacheFile, victim] = [fresh(), fresh()];
    await writeFile(victim, "precious");
    await symlink(victim, cacheFile);
    const instance = await startTestKeyrack({ plane, options: { cacheFile } });
    await instance.keyrack.close();
    expect(await readFile(victim, "utf8")).toBe("precious");
  });

  it("is written soon after changes, not once per change", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const cacheFile = fresh();
    await using instance = await startTestKeyrack({ plane, ports, options: { cacheFile } });
    for (let i = 0; i < 20; i++) plane.mint();
    await until(() => instance.keyrack.status().version === 21);
    expect(ports.waiting.filter((ms) => ms > 900 && ms <= 1000).length).toBe(1);
    ports.advance(1000);
    await until(() => plane.feed.nodes.size === 1);
    await instance.keyrack.close();
    await plane.down();
    await using again = await startTestKeyrack({ plane, ports, options: { cacheFile } });
    expect(again.keyrack.status()).toMatchObject({ version: 21, keys: 20 });
  });

  it("lets ready() resolve while the control plane hangs: after two seconds, or at its timeout", async () => {
    await using plane = await FakeControlPlane.start();
    const cacheFile = fresh();
    const { key } = plane.mint();
    const ports = new ManualPorts();
    await (await startTestKeyrack({ plane, ports, options: { cacheFile } })).keyrack.close();
    plane.injectFault = ({ query }) => (query.has("leaving") ? undefined : "hang");
    for (const ready of [{ timeoutMs: 500 }, {}]) {
      const again = await startTestKeyrack({ plane, ports, options: { cacheFile }, ready: false });
      const wanted = again.keyrack.ready(ready);
      await ports.timer(2000, 2000);
      ports.advance(ready.timeoutMs ?? 2000);
      await wanted;
      expect(again.keyrack.verify(key).ok).toBe(true);
      await again.keyrack.close();
    }
    await using without = await startTestKeyrack({ plane, ports, options: { cacheFile: fresh() }, ready: false });
    const refused = without.keyrack.ready({ timeoutMs: 500 }).catch((error: Error) => error.message);
    ports.advance(2000);
    expect(await refused).toContain("keyrack has no policy after 500 ms from ");
  });

  it("is written again after the wall clock was set back, so that it is not from the future", async () => {
    await using plane = await FakeControlPlane.start();
    const cacheFile = fresh();
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports, options: { cacheFile } });
    const fetchedAt = async () => {
      const header = (await readFile(cacheFile, "latin1").catch(() => "")).split("\n")[1];
      return header ? (JSON.parse(header) as { fetched_at: number }).fetched_at : 0;
    };
    ports.advance(await ports.timer(1000, 1000));
    await until(async () => (await fetchedAt()) === ports.wall - 1000);
    ports.setWall(-7_200_000);
    plane.feed.stop(); // responds without a change
    await ports.timer(1000, 1000);
    ports.advance(1000);
    await until(async () => (await fetchedAt()) === ports.wall - 1000);
    expect(instance.keyrack.status().version).toBe(1);
  });

  it("only logs when it cannot be written", async () => {
    await using plane = await FakeControlPlane.start();
    const instance = await startTestKeyrack({ plane, options: { cacheFile: join(folder, "no", "such", "folder") } });
    await instance.keyrack.close();
    expect(instance.lines.some(({ message }) => message === "the cache file cannot be written")).toBe(true);
  });

  it("logs the failures 1, 2, 4 and 8 in a row while it cannot be written", async () => {
    const plane = new FakeControlPlane();
    const ports = new ManualPorts();
    const settings = readOptions({ ...plane.options, url: "http://127.0.0.1:9" });
    const failures: unknown[] = [];
    const log: Log = (_level, _message, fields) => void failures.push(fields["failures"]);
    const state = new PolicyState(settings, ports, log);
    const place = fresh();
    const cache = new CacheFile(
      join(place, "policy"),
      { client: new Client(settings, ports), settings, ports, log },
      state,
    );
    state.confirm(new Policy(plane.workspaceId, plane.projectId, null, 1));
    const write = async () => (cache.note(true), cache.close());
    for (let i = 0; i < 10; i++) await write();
    expect(failures).toEqual([1, 2, 4, 8]);
    await mkdir(place);
    await write();
    await rm(place, { recursive: true });
    await write();
    expect(failures).toEqual([1, 2, 4, 8, 1]);
    state.close();
  });

  describe("that is not intact, of this project and recent", () => {
    type Twist = { file?: (bytes: Buffer) => Buffer; options?: object; wall?: number };
    const otherProject = "0190163d-8694-739b-aea5-966c26f8ad99";
    const secretKey = formatCredential("secret_key", "live", randomBytes(24));
    const twists: [string, Twist][] = [
      ["with one bit flipped near its end", { file: flip((bytes) => bytes.length - 30) }],
      ["with one bit flipped in its header", { file: flip(() => 120) }],
      ["with one bit flipped in its HMAC", { file: flip(() => 20) }],
      ["when it was truncated", { file: (bytes) => bytes.subarray(0, bytes.length - 80) }],
      ["when a row was added", { file: (bytes) => Buffer.concat([bytes, Buffer.alloc(80, 1)]) }],
      ["when it is empty", { file: () => Buffer.alloc(0) }],
      ["when it has another format", { file: () => Buffer.from("{}\n".repeat(100)) }],
      ["of another project", { options: { projectId: otherProject } }],
      ["of another environment", { options: { env: "live" } }],
      ["of another secret key", { options: { secretKey } }],
      ["past maxStaleMs", { wall: 86_400_001 }],
      ["from the future", { wall: -600_000 }],
    ];
    for (const [what, { file, options = {}, wall = 0 }] of twists) {
      it(`is not used ${what}`, async () => {
        await using plane = await FakeControlPlane.start();
        const cacheFile = fresh();
        const ports = new ManualPorts();
        const { key } = plane.mint();
        const first = await startTestKeyrack({ plane, ports, options: { cacheFile } });
        await first.keyrack.close();
        await plane.down();
        if (file) await writeFile(cacheFile, file(await readFile(cacheFile)));
        ports.setWall(wall);
        await using again = await startTestKeyrack({ plane, ports, options: { cacheFile, ...options }, ready: false });
        await until(() => again.lines.some(({ message }) => message === "the policy feed failed"));
        expect(again.keyrack.verify(key)).toMatchObject({ code: "unavailable" });
        expect(again.lines.map(({ message }) => message)).toContain("the cache file is not used");
      });
    }
  });
});

function flip(where: (bytes: Buffer) => number) {
  return (bytes: Buffer) => {
    const at = where(bytes);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    return bytes;
  };
}
