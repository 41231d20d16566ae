// What each environment of a workspace may write in a day: at its share it is refused, and no other is.
import { describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, testInstance } from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { WrittenBytes } from "../../../src/domain/limits/written-bytes.ts";
import { cellOwner, soleOwner } from "../../../src/fairness/owners.ts";
import { fail } from "../../../src/kernel/errors.ts";
import type { OnWritten, Store } from "../../../src/store/store.ts";
import { unboundedLedger } from "../../../harness/ledgers.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

const MIB = 1024 * 1024;
const completion = (lock_token: string) => ({
  env: "live",
  scope_hash: "a".repeat(64),
  lock_token,
  status: 201,
  headers: { "x-long": "h".repeat(4_000) },
  body: Buffer.alloc(1_000).toString("base64"),
});
const ledgerOf = () => unboundedLedger();

for (const backend of runBackends) {
  describe(`bytes written in a day on ${backend}`, () => {
    it("are bounded for each environment, except for what ends a credential, until midnight", async () => {
      const clock = testClock(20_000 * DAY_MS + 1_000);
      await using instance = await testInstance(backend, { clock, flags: { throttle: "on", writes_mb_per_day: "8" } });
      const workspace = await instance.workspace();
      const other = await instance.workspace();
      const { writtenBytes } = instance.app.services;
      writtenBytes.add(cellOwner(workspace.id, "live"), 7 * MIB); // filling all of it would take long
      writtenBytes.add(cellOwner(workspace.id, "test"), (7 / 4) * MIB);
      const key = await workspace.mint();
      const scope = { env: "live", scope_hash: "a".repeat(64), fingerprint: "b".repeat(64) };
      const claimed = (await workspace.call("sk_owner", "POST /v1/idempotency/claim", scope)).body.lock_token as string;
      let made = 0;
      const create = (as: "sk_owner" | "sk_test", by = workspace) =>
        by.call(as, "POST /v1/tenants", { external_id: `t${++made}`, meta: { text: "x".repeat(15_000) } });
      const fill = async (as: "sk_owner" | "sk_test"): Promise<number> => {
        for (let count = 0; ; count++) if ((await create(as)).status !== 201) return count;
      };
      const ofTest = await fill("sk_test");
      expect([ofTest > 10, ofTest < 18]).toEqual([true, true]);
      expect((await create("sk_owner")).status).toBe(201);
      expect(await fill("sk_owner")).toBeGreaterThan(50);
      const refused = await create("sk_owner");
      expectRefusal(refused, 429, "rate_limited");
      expect(refused.headers.get("ratelimit-policy")).toBe('"writes";q=8;w=86400');
      expect(Number(refused.headers.get("retry-after"))).toBe(86_399);
      expect((await create("sk_owner", other)).status).toBe(201);
      expect((await workspace.call("sk_owner", `POST /v1/keys/${key.id}/revoke`, {})).status).toBe(200);
      expect((await workspace.call("sk_owner", "GET /v1/tenants")).status).toBe(200);
      const completed = await workspace.call("sk_owner", "POST /v1/idempotency/complete", completion(claimed));
      expect([completed.body.outcome, completed.body.body_stored]).toEqual(["ok", false]);
      expect(await instance.sql("select status, stored_bytes from idempotency_records")).toMatchObject([
        { status: 201, stored_bytes: 0 },
      ]);
      expectRefusal(
        await workspace.call("sk_owner", "POST /v1/idempotency/claim", { ...scope, scope_hash: "c".repeat(64) }),
        429,
        "rate_limited",
      );

      const { services } = instance.app;
      await services.writtenBytes.flush();
      const sums = await instance.sql(
        `select env, bytes from written_bytes where workspace_id = '${workspace.id}' order by env`,
      );
      expect(sums.map(({ env, bytes }) => [env, Number(bytes) > MIB / 4])).toEqual([
        ["live", true],
        ["test", true],
      ]);
      // A process that starts later knows them.
      const { store, settings } = services;
      const later = new WrittenBytes({ store, clock, settings, ledger: ledgerOf() });
      await later.load();
      expect(() => later.requireRoom(cellOwner(workspace.id, "live"))).toThrow("reached a usage limit");
      later.requireRoom(cellOwner(other.id, "live"));

      clock.advance(DAY_MS);
      expect((await create("sk_test")).status).toBe(201);
      expect((await create("sk_owner")).status).toBe(201);
      clock.advance(2 * DAY_MS);
      await services.writtenBytes.reap();
      expect(await instance.sql("select env from written_bytes where day = 20000")).toEqual([]);
    });
  });
}

for (const backend of runBackends) {
  describe(`an environment at its share on ${backend}`, () => {
    it("ends things as often as it likes and stores no response of that", async () => {
      await using instance = await testInstance(backend, { flags: { throttle: "on", writes_mb_per_day: "8" } });
      const workspace = await instance.workspace();
      const ended = [await workspace.mint(), await workspace.mint()];
      const revoke = (id: string, key: string) =>
        workspace.call("sk_owner", `POST /v1/keys/${id}/revoke`, {}, { headers: { "idempotency-key": key } });
      expect((await revoke(ended[0]?.id ?? "", "below")).status).toBe(200);
      const again = await revoke(ended[0]?.id ?? "", "below");
      expect(again.headers.get("idempotent-replayed")).toBe("true");
      instance.app.services.writtenBytes.add(cellOwner(workspace.id, "live"), 8 * MIB);
      expectRefusal(await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "late" }), 429, "rate_limited");
      for (const { id } of ended)
        for (const key of ["a", "b", "c"]) {
          const { status, body } = await revoke(id, `${id}-${key}`);
          expect([status, body.revoked_at === null]).toEqual([200, false]);
        }
      expect(await instance.sql("select status from kept_answers")).toHaveLength(1);
      expect(await workspace.actions()).toEqual([
        "api_key.created",
        "api_key.created",
        "api_key.revoked",
        "api_key.revoked",
      ]);
    });

    it("revokes embed tokens 60 times a minute, which is not limited below the share", async () => {
      const clock = testClock(20_000 * DAY_MS);
      await using instance = await testInstance(backend, { clock, flags: { throttle: "on", writes_mb_per_day: "8" } });
      const workspace = await instance.workspace();
      const second = await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "second" });
      const tenants = [workspace.tenant_id, second.body.id as string];
      let calls = 0;
      const revoke = () =>
        workspace.call("sk_owner", `POST /v1/tenants/${tenants[++calls % 2]}/embed_tokens/revoke`, {});
      const statuses = async (times: number) =>
        new Set((await Promise.all(Array.from({ length: times }, revoke))).map(({ status }) => status));
      expect(await statuses(70)).toEqual(new Set([200]));
      instance.app.services.writtenBytes.add(cellOwner(workspace.id, "live"), 8 * MIB);
      expect(await statuses(60)).toEqual(new Set([200]));
      const rows = (await workspace.actions()).length;
      const refused = await revoke();
      expectRefusal(refused, 429, "rate_limited");
      expect(refused.headers.get("ratelimit-policy")).toBe('"embed-revocations";q=60;w=60');
      expect((await workspace.actions()).length).toBe(rows);
      clock.advance(60_000);
      expect((await revoke()).status).toBe(200);
    });
  });
}

describe("a disk that is almost full", () => {
  it("refuses those that wrote much before all others", async () => {
    let written: OnWritten = () => {};
    let free = 1023 * MIB;
    const store = { onWritten: (listener: OnWritten) => (written = listener) } as unknown as Store;
    const settings = { throttle: true, writes_mb_per_day: 0, disk_reserve_mb: 1024 };
    const clock = testClock(20_000 * DAY_MS);
    const diskSpace = async () => ({ free, total: 4096 * MIB });
    const bytes = new WrittenBytes({ store, clock, settings, ledger: ledgerOf(), diskSpace });
    const [much, little] = [cellOwner("much", "live"), cellOwner("little", "live")];
    Object.assign(store, { write: async () => [0, 0] });
    written(much, 65 * MIB);
    written(little, MIB);
    bytes.requireRoom(much);
    await bytes.flush();
    expect(() => bytes.requireRoom(much)).toThrow("The storage is full");
    bytes.requireRoom(little);
    clock.advance(DAY_MS);
    expect(() => bytes.requireRoom(much)).toThrow("The storage is full"); // since yesterday
    clock.advance(DAY_MS / 2);
    bytes.requireRoom(much); // half of it is more than 24 hours ago
    clock.advance(DAY_MS / 2);
    bytes.requireRoom(much);
    free = 2048 * MIB;
    written(much, 65 * MIB);
    await bytes.flush();
    bytes.requireRoom(much);
    free = 199 * MIB;
    await bytes.flush();
    const person = soleOwner("person", "p");
    for (const owner of [much, little, person]) expect(() => bytes.requireRoom(owner)).toThrow("The storage is full");
  });

  it("is low below 5 % or 200 MiB, where it is watched", async () => {
    const store = { onWritten: () => {}, target: { kind: "postgres" } } as unknown as Store;
    const settings = { throttle: true, writes_mb_per_day: 0, disk_reserve_mb: 0 };
    const isLow = async (disk?: { free: number; total: number }): Promise<boolean> => {
      const diskSpace = disk && { diskSpace: async () => disk };
      const bytes = new WrittenBytes({ store, clock: testClock(0), settings, ledger: ledgerOf(), ...diskSpace });
      expect(bytes.isDiskLow).toBe(false);
      await bytes.flush();
      return bytes.isDiskLow;
    };
    expect(await isLow({ free: 199 * MIB, total: 1000 * MIB })).toBe(true);
    expect(await isLow({ free: 200 * MIB, total: 4000 * MIB })).toBe(false);
    expect(await isLow({ free: 499 * MIB, total: 10_000 * MIB })).toBe(true);
    expect(await isLow({ free: 500 * MIB, total: 10_000 * MIB })).toBe(false);
    expect(await isLow()).toBe(false); // PostgreSQL
  });
});

describe("bytes that could not be added", () => {
  it("are not added again where PostgreSQL may have stored them", async () => {
    const settings = { throttle: true, writes_mb_per_day: 0, disk_reserve_mb: 0 };
    const write = vi.fn(async () => [5]);
    const store = { dialect: "postgres", onWritten: () => {}, write } as unknown as Store;
    const diskSpace = async () => ({ free: MIB, total: MIB });
    const bytes = new WrittenBytes({
      store,
      clock: testClock(20_000 * DAY_MS),
      settings,
      ledger: ledgerOf(),
      diskSpace,
    });
    const writesAfter = async (error: Error): Promise<number> => {
      bytes.add(cellOwner("w", "live"), 5);
      write.mockRejectedValueOnce(error);
      await expect(bytes.flush()).rejects.toThrow(error);
      write.mockClear();
      await bytes.flush();
      return write.mock.calls.length;
    };
    expect(await writesAfter(fail("unavailable"))).toBe(0);
    expect(await writesAfter(fail("share_full"))).toBe(1);
  });

  it("are added by the next flush, to the day on which they were written", async () => {
    let written: OnWritten = () => {};
    const store = { onWritten: (listener: OnWritten) => (written = listener) } as unknown as Store;
    const settings = { throttle: true, writes_mb_per_day: 0, disk_reserve_mb: 0 };
    const clock = testClock(20_000 * DAY_MS);
    const diskSpace = async () => ({ free: MIB, total: MIB });
    const bytes = new WrittenBytes({ store, clock, settings, ledger: ledgerOf(), diskSpace });
    const added: unknown[] = [];
    const dialect = "sqlite";
    const first = async ({ values }: { values: unknown[] }) => void added.push(values);
    type Job = { work: (tx: unknown) => Promise<{ value: unknown }> };
    const write = vi.fn(async ({ work }: Job) => (await work({ dialect, first })).value);
    write.mockRejectedValueOnce(new Error("the database is away"));
    Object.assign(store, { write });
    written(cellOwner("w", "live"), 5);
    await expect(bytes.flush()).rejects.toThrow("away");
    clock.advance(DAY_MS);
    written(cellOwner("w", "live"), 7);
    await bytes.flush();
    expect(added.map((values) => (values as unknown[]).slice(0, 4))).toEqual([
      ["w", "live", 20_000, 5],
      ["w", "live", 20_001, 7],
    ]);
    await bytes.flush();
    expect(write).toHaveBeenCalledTimes(2);
  });
});
