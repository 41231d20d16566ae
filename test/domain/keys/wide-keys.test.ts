// Keys with many long scopes: statements and transactions over them are bounded by bytes, not by a number of keys alone.
import { beforeEach, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedServices, vendorOf } from "../../../harness/instances/test-services.ts";
import type { SecretKeyActor } from "../../../src/domain/core/actor.ts";
import type { Ctx } from "../../../src/domain/core/context.ts";
import { bulkKeys } from "../../../src/domain/keys/bulk.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { searchKeys } from "../../../src/domain/search/keys.ts";
import { indexChanges } from "../../../src/domain/search/search-index.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { MIB } from "../../../src/kernel/sizes.ts";
import type { Reader } from "../../../src/store/engine/tx.ts";
import type { Store } from "../../../src/store/store.ts";

const KEYS = 40;
const SCOPES = Array.from({ length: 64 }, (_, i) => `${i}${"😀".repeat(190)}`);
const KEY_BYTES = Buffer.byteLength(JSON.stringify(SCOPES));

/** `read`: bytes of each read; `transactions`: bytes read by each; `changed`: rows changed by each statement. */
type Work = { read: number[]; transactions: number[]; changed: number[] };

const bytesOf = (value: unknown): number =>
  typeof value === "string" || value instanceof Uint8Array ? Buffer.byteLength(value) : 0;
const rowsBytes = (rows: readonly unknown[]): number =>
  rows.flatMap((row) => Object.values(row ?? {})).reduce<number>((sum, value) => sum + bytesOf(value), 0);
const sumOf = (all: readonly number[]): number => all.reduce((sum, each) => sum + each, 0);

/** Passes every call on, and notes what reads return and writes change. */
function measured<T extends Reader>(on: T, work: Work): T {
  const note = (name: string | symbol, result: unknown): void => {
    if (name === "run") work.changed.push(result as number);
    else if (name === "all" || name === "first") work.read.push(rowsBytes([result].flat()));
  };
  return new Proxy(on, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        const result: unknown = value.apply(target, args);
        return result instanceof Promise ? result.then((done: unknown) => (note(name, done), done)) : result;
      };
    },
  });
}

function measuring(ctx: Ctx<SecretKeyActor>): { ctx: Ctx<SecretKeyActor>; work: Work } {
  const { store } = ctx.services;
  const work: Work = { read: [], transactions: [], changed: [] };
  const write: Store["write"] = (job) =>
    store.write({
      ...job,
      work: async (tx) => {
        const from = work.read.length;
        const done = await job.work(measured(tx, work));
        work.transactions.push(sumOf(work.read.slice(from)));
        return done;
      },
    });
  const read = measured(store.read, work);
  const own = Object.create(store, { read: { value: read }, write: { value: write }, backlog: { value: 0 } }) as Store;
  return { ctx: { ...ctx, services: { ...ctx.services, store: own } }, work };
}

for (const backend of runBackends) {
  describe(`wide keys on ${backend}`, () => {
    const fixture = sharedServices(backend);
    let measuredCtx: Ctx<SecretKeyActor>;
    let work: Work;
    beforeEach(async () => {
      const plain = await vendorOf(fixture().services);
      const project_id = (await createProject(plain, { name: "P", slug: "ppp" })).id;
      const tenant_id = (await createTenant(plain, { external_id: "t" })).id;
      const key = { project_id, tenant_id, env: "live", name: "word", scopes: SCOPES } as const;
      await Promise.all(Array.from({ length: KEYS }, () => createKey(plain, key)));
      ({ ctx: measuredCtx, work } = measuring(plain));
    });
    const bulk = (action: "rotate" | "revoke") =>
      bulkKeys(measuredCtx, {
        action,
        filter: { all: true },
        dry_run: false,
        limit: 500,
        overlap_hours: 1,
        grace_days: 0,
      });

    it("are indexed a few at a time, in several transactions", async () => {
      await indexChanges(measuredCtx.services);
      expect(Math.max(...work.read)).toBeLessThan(11 * KEY_BYTES);
      expect(Math.max(...work.transactions)).toBeLessThan(MIB + 11 * KEY_BYTES);
      expect(sumOf(work.transactions)).toBeGreaterThan(KEYS * KEY_BYTES);
    });

    it("are searched without reading their scopes", async () => {
      await indexChanges(fixture().services);
      const search = async (scope: string) => {
        const query = { include_revoked: false, limit: 100, q: "word", scope };
        return (
          await searchKeys(
            measuredCtx,
            query,
            () =>
              ({ id }) =>
                id,
          )
        ).parse().data;
      };
      expect(await search("nothing")).toEqual([]);
      expect(sumOf(work.read)).toBeLessThan(KEYS * 1_000);
      expect(await search(SCOPES[63]!)).toHaveLength(KEYS);
    });

    it("are rotated as far as a transaction may copy, and no more of them are read", async () => {
      const { changed, next_cursor } = await bulk("rotate");
      expect(changed).toBe(Math.floor(MIB / (KEY_BYTES + "{}[]".length)));
      expect(next_cursor).not.toBeNull();
      expect(sumOf(work.read)).toBeLessThan(26 * (KEY_BYTES + 2_000));
    });

    it("are revoked by statements of a few keys", async () => {
      expect((await bulk("revoke")).changed).toBe(KEYS);
      const updates = work.changed.filter((rows) => rows > 1);
      expect(updates).toEqual([25, 15]);
    });
  });
}
