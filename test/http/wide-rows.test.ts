// Lists of records as wide as they may be, outside ASCII: SQLite decodes little of them at a time, PostgreSQL sends few
// of the widest, and no page is larger than the maximum in bytes.
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { runBackends } from "../../harness/databases/backends.ts";
import { sharedInstance, type Workspace } from "../../harness/instances/test-instance.ts";
import { must } from "../../harness/instances/world.ts";
import { WIDE_PIECE_ROWS } from "../../src/domain/core/list.ts";
import { PIECE_CHARS } from "../../src/store/engine/piece.ts";
import type { Piece } from "../../src/store/engine/tx.ts";

const ANSWER_MAX = 262_144;
const ROWS = 8;
const META = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`m${i}`, "😀".repeat(60)]));
const SCOPES = Array.from({ length: 64 }, (_, i) => `${i}`.padEnd(190, "é"));
const catalogue = (letter: string) =>
  Array.from({ length: 200 }, (_, i) => ({ name: `s${i}-`.padEnd(150, letter), description: "😀".repeat(200) }));
/** More than the widest row has: an audit row with two catalogues. */
const ROW_CHARS = 300_000;

const charsOf = (rows: readonly unknown[]): number =>
  rows
    .flatMap((row) => Object.values(row as object))
    .reduce<number>((sum, value) => {
      return sum + (typeof value === "string" ? value.length : 0);
    }, 0);

for (const backend of runBackends) {
  describe(`lists of wide records on ${backend}`, () => {
    const instance = sharedInstance(backend, { flags: { answer_max_bytes: String(ANSWER_MAX) } });
    let workspace: Workspace;
    let paths: readonly (readonly [path: string, rows: number])[];
    beforeAll(async () => {
      workspace = await instance.workspace();
      const call = (route: string, body: object) => must(workspace.call("sk_owner", route, body));
      const { project_id } = workspace;
      const ids: string[] = [];
      for (let i = 0; i < ROWS; i++) {
        ids.push((await workspace.mint({ scopes: SCOPES, meta: META, name: `word ${i}` })).id);
        await call("POST /v1/tenants", { external_id: `t${i}`, meta: META });
        await call("POST /v1/secret_keys", { env: "test", meta: META });
        await call("POST /v1/plans", { name: "plan", slug: `plan-${i}`, scopes: SCOPES, meta: META });
        await call("POST /v1/projects", { name: "p", slug: `project-${i}`, scope_catalogue: catalogue("ü") });
        await call(`PATCH /v1/projects/${project_id}`, { scope_catalogue: catalogue(i % 2 ? "ä" : "ö") });
      }
      paths = [
        ["keys?limit=200", ROWS],
        [`keys?limit=200&project_id=${project_id}`, ROWS],
        [`keys?limit=200&ids=${ids.join()}`, ROWS],
        ["tenants?limit=200", ROWS + 1],
        ["secret_keys?limit=200", ROWS + 3],
        ["plans?limit=200", ROWS],
        ["projects?limit=200", ROWS + 1],
        ["audit_logs?limit=200&action=project.updated", ROWS],
        ["audit_logs?limit=200&action=project.*&order=desc", 2 * ROWS + 1],
        ["audit_logs?limit=200&action=project.updated&actor_type=secret_key", ROWS],
      ];
    });

    it("are read in small pieces", async () => {
      const { read } = instance.app.services.store;
      const all = vi.spyOn(read, "all");
      const within = read.allWithin && vi.spyOn(read as Required<typeof read>, "allWithin");
      onTestFinished(() => void vi.restoreAllMocks());
      for (const [path] of paths) expect((await workspace.call("sk_owner", `GET /v1/${path}`)).status).toBe(200);
      await workspace.call("sk_owner", "GET /v1/audit_logs/export");
      const pieces = (within?.mock.settledResults ?? []).map(({ value }) => (value as Piece<unknown>).rows);
      const reads = [...pieces, ...all.mock.settledResults.map(({ value }) => value as unknown[])];
      expect(Math.max(...reads.map((rows) => rows.length))).toBeLessThanOrEqual(WIDE_PIECE_ROWS + 1);
      if (within) expect(Math.max(...reads.map(charsOf))).toBeLessThan(PIECE_CHARS + ROW_CHARS);
    });

    it("are whole for clients that know no pages of plans", async () => {
      const { text, body } = await workspace.call("sk_owner", "GET /v1/plans");
      expect([body.data.length, "has_more" in body, Buffer.byteLength(text) > ANSWER_MAX]).toEqual([ROWS, false, true]);
    });

    it("are complete over their pages, none of them larger than the maximum", async () => {
      for (const [path, rows] of paths) {
        const ids: string[] = [];
        let pages = 0;
        for (let more: string | null = ""; more !== null; pages++) {
          const { text, body } = await workspace.call("sk_owner", `GET /v1/${path}${more}`);
          expect(body.data.length === 1 || Buffer.byteLength(text) < ANSWER_MAX + 1_000).toBe(true);
          ids.push(...body.data.map(({ id }: { id: string }) => id));
          if (body.next_cursor) more = `&cursor=${encodeURIComponent(body.next_cursor)}`;
          else more = body.has_more ? `&after=${ids.at(-1)}` : null;
        }
        expect([path, ids.length, new Set(ids).size]).toEqual([path, rows, rows]);
        expect([path, pages > 1]).toEqual([path, !/tenants|secret_keys/.test(path)]);
      }
    });
  });
}
