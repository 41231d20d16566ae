// What the library announces, and how it gets along with a server of an earlier release.
import { createHmac } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeControlPlane } from "../../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../../harness/sdk/ports.ts";
import { startTestKeyrack } from "../../../harness/sdk/test-keyrack.ts";
import { until } from "../../../harness/waiting.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

const calls = (plane: FakeControlPlane) =>
  plane.seen
    .filter(({ path }) => path.startsWith("/v1/policy/"))
    .map(({ path, query }) => `${path.slice("/v1/policy/".length)} ${query.get("caps") ?? "-"}`);

describe("capabilities", () => {
  it("are announced with every call, and shown once the server has accepted them", async () => {
    await using instance = await startTestKeyrack();
    expect(instance.keyrack.status().caps).toEqual(["cidr", "disabled", "formats", "quotas"]);
    instance.plane.mint();
    await until(() => instance.keyrack.status().keys === 1);
    expect(new Set(calls(instance.plane))).toEqual(
      new Set(["snapshot cidr,disabled,formats,quotas", "delta cidr,disabled,formats,quotas"]),
    );
  });

  it("let a disabled key and a suspended tenant's be refused as such, before scopes and by a stale policy too", async () => {
    await using plane = await FakeControlPlane.start();
    const key = plane.mint({ disabled: "key", scopes: ["a"] });
    const same = plane.mint({ scopes: ["a"] });
    const tenant = plane.mint({ disabled: "tenant", scopes: ["a"] });
    const expired = plane.mint({ disabled: "key", expires_at: "2020-01-01T00:00:00.000Z" });
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports, options: { failMode: "open" } });
    const codes = () =>
      [key, same, tenant, expired].map(({ key: text }) => {
        const verdict = instance.keyrack.verify(text, { scopes: ["b"] });
        return verdict.ok ? "admitted" : `${verdict.status} ${verdict.code}`;
      });
    expect(codes()).toEqual(["403 key_disabled", "403 insufficient_scope", "403 tenant_suspended", "401 expired_key"]);
    await plane.down();
    ports.advance(86_400_000 + MINUTE_MS); // older than maxStaleMs
    expect(codes()).toEqual(["403 key_disabled", "admitted", "403 tenant_suspended", "401 expired_key"]);
    expect(instance.keyrack.verify(same.key)).toMatchObject({ context: { verified: false } });
  });

  it("reject a policy that disables a key in an unknown way", async () => {
    await using instance = await startTestKeyrack();
    const { key } = instance.plane.mint();
    await until(() => instance.keyrack.verify(key).ok);
    instance.plane.feed.upsert(key, { disabled: "moon" as "key" });
    await until(() => instance.lines.some(({ fields }) => String(fields["why"]).includes("unknown way")));
    expect(instance.keyrack.verify(key).ok).toBe(true); // the held policy decides
  });

  it("are left out for five minutes when the server refuses them, then announced again with a snapshot", async () => {
    await using plane = await FakeControlPlane.start();
    plane.feed.capable = false;
    const ports = new ManualPorts();
    const { key } = plane.mint();
    await using instance = await startTestKeyrack({ plane, ports });
    expect(instance.keyrack.verify(key).ok).toBe(true);
    expect(instance.keyrack.status().caps).toEqual([]);
    expect(calls(plane).slice(0, 2)).toEqual(["snapshot cidr,disabled,formats,quotas", "snapshot -"]);
    // Still refused: what it holds stays and is polled as before, without another snapshot. Logged once.
    await until(() => calls(plane).includes("delta -"));
    const before = calls(plane).length;
    ports.mono += 6 * MINUTE_MS;
    const next = plane.mint(); // ends the poll in flight
    await until(() => calls(plane).slice(before).join().endsWith("snapshot cidr,disabled,formats,quotas,delta -"));
    plane.mint();
    await until(() => instance.keyrack.status().keys === 3);
    expect(instance.keyrack.verify(next.key).ok).toBe(true);
    const snapshots = calls(plane)
      .slice(before)
      .filter((call) => call.startsWith("snapshot"));
    expect(snapshots).toEqual(["snapshot cidr,disabled,formats,quotas"]);
    // Upgraded meanwhile: a snapshot brings what was withheld, without a restart.
    plane.feed.capable = true;
    const disabled = plane.mint({ disabled: "key" });
    ports.mono += 7 * MINUTE_MS;
    plane.mint();
    await until(() => instance.keyrack.status().caps.length > 0);
    expect(instance.keyrack.verify(disabled.key)).toMatchObject({ code: "key_disabled" });
    expect(instance.lines.filter(({ message }) => message.includes("earlier release"))).toHaveLength(1);
    expect(instance.lines.filter(({ level }) => level === "warn")).toEqual([]);
    expect(instance.lines.filter(({ message }) => message.includes("long polls"))).toEqual([]);
  });

  it("are not the reason for a 400 that comes without them too", async () => {
    await using plane = await FakeControlPlane.start();
    plane.injectFault = () => ({ status: 400, json: { error: { code: "invalid_request", message: "" } } });
    await using instance = await startTestKeyrack({ plane, ready: false });
    await expect(instance.keyrack.ready()).rejects.toThrow("status 400");
    expect(calls(plane).slice(0, 2)).toEqual(["snapshot cidr,disabled,formats,quotas", "snapshot -"]);
  });

  it("are dropped by a server that is replaced by an earlier one: the next exchange is a snapshot", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const { key } = plane.mint();
    await using instance = await startTestKeyrack({ plane, ports });
    expect(instance.keyrack.status().caps).toEqual(["cidr", "disabled", "formats", "quotas"]);
    plane.feed.capable = false;
    plane.mint(); // ends the poll in flight
    await until(() => instance.keyrack.status().caps.length === 0);
    expect(instance.keyrack.verify(key).ok).toBe(true);
    const refused = calls(plane).indexOf("delta -");
    expect(calls(plane)[refused - 1]).toBe("delta cidr,disabled,formats,quotas");
    expect(calls(plane)[refused + 1]).toBe("snapshot -");
  });

  it("that a server refuses leave the held policy as it is until a snapshot is complete", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const { key } = plane.mint({ allowed_cidrs: ["203.0.113.0/24"], ip_mode: "enforce" });
    await using instance = await startTestKeyrack({ plane, ports });
    const isAdmitted = () => instance.keyrack.verify(key, { ip: "203.0.113.9" }).ok;
    await until(() => calls(plane).at(-1)?.startsWith("delta ") === true);
    plane.feed.capable = false;
    plane.injectFault = ({ path }) => (path.endsWith("/snapshot") ? { status: 503 } : undefined);
    plane.mint(); // ends the poll in flight
    await until(() => calls(plane).at(-1) === "delta -");
    plane.feed.upsert(key, { scopes: ["read"] }); // a removal for nodes that cannot enforce the list
    await until(() => calls(plane).at(-1) === "snapshot -");
    expect([isAdmitted(), instance.keyrack.status().caps.length]).toEqual([true, 4]);
    await until(() => instance.lines.some(({ message }) => message.includes("feed failed"))); // the next call is scheduled
    plane.injectFault = () => undefined;
    plane.feed.capable = true;
    ports.advance(7 * MINUTE_MS);
    await until(() => instance.keyrack.verify(key, { ip: "203.0.113.9", scopes: ["read"] }).ok);
  });
});

describe("the cache file", () => {
  let folder = "";
  let serial = 0;
  const fresh = () => join(folder, `policy-${serial++}`);
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "keyrack-caps-"));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it("keeps what was announced and refuses disabled keys after a restart", async () => {
    await using plane = await FakeControlPlane.start();
    const cacheFile = fresh();
    const key = plane.mint({ disabled: "tenant" });
    const first = await startTestKeyrack({ plane, options: { cacheFile } });
    await first.keyrack.close();
    await plane.down();
    await using again = await startTestKeyrack({ plane, options: { cacheFile } });
    expect(again.keyrack.verify(key.key)).toMatchObject({ code: "tenant_suspended" });
    expect(again.keyrack.status().caps).toEqual(["cidr", "disabled", "formats", "quotas"]);
  });

  it("of an earlier release is read, as a policy fetched without capabilities", async () => {
    await using plane = await FakeControlPlane.start();
    const cacheFile = fresh();
    const key = plane.mint();
    const first = await startTestKeyrack({ plane, options: { cacheFile } });
    await first.keyrack.close();
    const bytes = await readFile(cacheFile);
    const lineEnd = bytes.indexOf(10) + 1;
    const headerEnd = bytes.indexOf(10, lineEnd) + 1;
    const { caps, ...header } = JSON.parse(bytes.subarray(lineEnd, headerEnd).toString()) as { caps: string };
    expect(caps).toBe("cidr,disabled,formats,quotas");
    const signed = Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), bytes.subarray(headerEnd)]);
    const mac = createHmac("sha256", plane.secretKey).update(signed).digest("hex");
    await writeFile(cacheFile, Buffer.concat([Buffer.from(`keyrack-policy-1 ${mac}\n`), signed]));
    await plane.down();
    await using again = await startTestKeyrack({ plane, options: { cacheFile } });
    expect(again.keyrack.verify(key.key).ok).toBe(true);
    expect(again.keyrack.status().caps).toEqual([]);
    const before = calls(plane).length;
    await plane.up();
    await until(() => again.keyrack.status().caps.length > 0);
    expect(calls(plane).slice(before)[0]).toBe("snapshot cidr,disabled,formats,quotas");
  });

  it("of this release cannot be passed off as one of an earlier", async () => {
    await using plane = await FakeControlPlane.start();
    const cacheFile = fresh();
    const first = await startTestKeyrack({ plane, options: { cacheFile } });
    await first.keyrack.close();
    const text = await readFile(cacheFile, "latin1");
    await writeFile(cacheFile, text.replace("keyrack-policy-3", "keyrack-policy-1"), "latin1");
    await plane.down();
    await using again = await startTestKeyrack({ plane, ready: false, options: { cacheFile } });
    await until(() => again.lines.some(({ message }) => message.includes("cache file is not used")));
    expect(again.keyrack.status().version).toBeNull();
  });
});
