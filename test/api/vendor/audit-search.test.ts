// Reading the audit log in either order, filtered, and as a stream.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { until } from "../../../harness/waiting.ts";
import { exportAudit } from "../../../src/domain/audit/export.ts";
import { verifyFile } from "../../../src/cli/commands/audit/verify-file.ts";
import { cellOwner } from "../../../src/fairness/owners.ts";
import { canonicalize } from "../../../src/kernel/audit/canonical.ts";

const seqs = (body: { data: { seq: number }[] }): number[] => body.data.map(({ seq }) => seq);

for (const backend of backends) {
  describe(`the audit search on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const list = async (workspace: Workspace, query: string, as: "sk_owner" | "sk_test" = "sk_owner") =>
      (await workspace.call(as, `GET /v1/audit_logs?${query}`)).body as {
        data: (Json & { seq: number })[];
        next_cursor: string;
      };
    const whole = async (workspace: Workspace, query: string): Promise<number[]> => {
      const found: number[] = [];
      for (let cursor = ""; ; ) {
        const page = await list(workspace, query + cursor);
        found.push(...seqs(page));
        if (page.next_cursor === null) return found;
        cursor = `&cursor=${page.next_cursor}`;
      }
    };

    it("walks newest first, each row once, while rows are appended", async () => {
      const workspace = await instance.workspace();
      for (let i = 0; i < 4; i++) await workspace.mint();
      const all = seqs(await list(workspace, "limit=200"));
      const found: number[] = [];
      for (let cursor = ""; ; ) {
        const page = await list(workspace, `order=desc&limit=3${cursor}`);
        found.push(...seqs(page));
        if (page.next_cursor === null) break;
        cursor = `&cursor=${page.next_cursor}`;
        await workspace.mint();
      }
      expect(found).toEqual(all.toReversed());
      expect(await list(workspace, "limit=200")).not.toHaveProperty("next_cursor");
    });

    it("filters by action, actor, target, number and time, all of them at once", async () => {
      const workspace = await instance.workspace();
      const before = new Date(instance.clock.now()).toISOString();
      instance.clock.advance(60_000);
      const start = seqs(await list(workspace, "limit=200")).length;
      const key = await workspace.mint();
      await workspace.mint();
      const tenant = await workspace.call("sk_admin", "POST /v1/tenants", { external_id: "two" });
      await workspace.call("sk_owner", `POST /v1/keys/${key.id}/revoke`, {});
      const [minted, second, made, revoked] = [start + 1, start + 2, start + 3, start + 4];
      for (const [query, expected] of [
        [`target_id=${key.id}`, [minted, revoked]],
        [`target_id=${key.id}&order=desc`, [revoked, minted]],
        ["action=api_key.*", [minted, second, revoked]],
        ["action=api_key.revoked", [revoked]],
        [`action=api_key.*&after_seq=${minted}&before_seq=${revoked}`, [second]],
        ["action=api_key.exploded", []],
        [`target_type=tenant&from=${before}&after_seq=${start}`, [made]],
        [`actor_id=${workspace.keyIds.sk_admin}`, [made]],
        [`actor_type=secret_key&action=tenant.created&target_id=${tenant.body.id}`, [made]],
        [`to=${before}&after_seq=${start}`, []],
        [`from=${new Date(instance.clock.now()).toISOString()}`, [minted, second, made, revoked]],
        ["before_seq=2", [1]],
        ["before_seq=1", []],
      ] as const) {
        const found = await whole(workspace, query);
        expect([query, found.filter((seq) => query.includes("before_seq") || seq >= start)]).toEqual([query, expected]);
      }
      for (const wrong of ["action=api_key", "action=%25", "order=up", "from=yesterday", "cursor=x", "before_seq=0"])
        expectRefusal(await workspace.call("sk_owner", `GET /v1/audit_logs?${wrong}`), 400, "invalid_request");
    });

    it("hides from a test principal what its list hides", async () => {
      const workspace = await instance.workspace();
      const [live, test] = [await workspace.mint({ env: "live" }), await workspace.mint({ env: "test" })];
      const targets = (await list(workspace, "action=api_key.*&order=desc", "sk_test")).data.map(
        ({ target_id }) => target_id,
      );
      expect(targets).toEqual([test.id]);
      expect((await list(workspace, `target_id=${live.id}`, "sk_test")).data).toEqual([]);
      const text = (await workspace.call("sk_test", "GET /v1/audit_logs/export")).text;
      expect([text.includes(test.id), text.includes(live.id)]).toEqual([true, false]);
    });

    it("ends an export without the number of a hidden row, and responds to a failed read with an error envelope", async () => {
      const workspace = await instance.workspace();
      await workspace.mint({ env: "test" });
      const last = (await list(workspace, "order=desc&limit=1", "sk_test")).data[0]?.seq;
      await workspace.mint({ env: "live" });
      instance.clock.advance(1_000);
      const to = new Date(instance.clock.now()).toISOString();
      const { headers } = await workspace.call("sk_test", `GET /v1/audit_logs/export?to=${to}`);
      expect(headers.get("audit-to-seq")).toBe(String(last));
      const { read } = instance.app.services.store;
      const failing = vi
        .spyOn(read, read.allWithin ? "allWithin" : "all")
        .mockRejectedValue(new Error("storage failed"));
      const failed = await workspace.call("sk_owner", "GET /v1/audit_logs/export");
      failing.mockRestore();
      expectRefusal(failed, 500, "internal_error");
      for (let i = 0; i < 5; i++)
        expect((await workspace.call("sk_owner", "GET /v1/audit_logs/export")).status).toBe(200);
    });

    it("charges an export to its owner in pieces while its client does not read", async () => {
      const workspace = await instance.workspace();
      const scopes = Array.from({ length: 50 }, (_, i) => `${i}`.padStart(60, "a"));
      for (let i = 0; i < 100; i++) await workspace.mint({ scopes });
      const unsent = instance.app.services.shares.of("unsent");
      const actor = { kind: "session", id: "s", user_id: "u", workspace_id: workspace.id, role: "admin" } as const;
      const { pieces, ended } = await exportAudit({ services: instance.app.services, actor }, {});
      let largest = 0;
      for await (const piece of pieces) {
        largest = Math.max(largest, piece.length);
        expect(unsent.used).toBe(Buffer.byteLength(piece));
      }
      ended();
      expect([largest > 64 * 1024, largest < 320 * 1024, unsent.used]).toEqual([true, true, 0]);
    });

    it("streams rows that verify as a chain, up to the head at its start", async () => {
      const workspace = await instance.workspace();
      await workspace.mint();
      const reply = await workspace.call("sk_owner", "GET /v1/audit_logs/export");
      expect(reply.headers.get("content-type")).toBe("application/x-ndjson");
      const rows = reply.text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
      expect(reply.headers.get("audit-to-seq")).toBe(String(rows.length));
      expect(reply.text).toMatch(/^\{"action":"workspace\.created",.*\}\n$/s);
      expect(rows[0].workspace_id).toBe(workspace.id);
      for (const as of ["sk_owner", "sk_test"] as const) {
        const listed = (await list(workspace, "limit=200", as)).data.map(({ actor: _person, ...row }) =>
          canonicalize({ ...row, workspace_id: workspace.id }),
        );
        const { text } = await workspace.call(as, "GET /v1/audit_logs/export");
        expect(text === `${listed.join("\n")}\n`).toBe(true);
      }
      const file = join(instance.dataDir, "export.jsonl");
      writeFileSync(file, reply.text);
      expect(await verifyFile(file, undefined)).toMatchObject([{ verified: true, checked: rows.length }]);
      const some = await workspace.call("sk_owner", "GET /v1/audit_logs/export?after_seq=2&action=project.*");
      expect(
        some.text
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line).action),
      ).toEqual(["project.created"]);
      const head = await workspace.call("sk_owner", "HEAD /v1/audit_logs/export");
      expect([head.status, head.text, head.headers.get("audit-to-seq")]).toEqual([200, "", String(rows.length)]);
      await until(() => instance.app.services.shares.of("unsent").used === 0);
    });

    it("streams four exports of live at a time, and one of test", async () => {
      const workspace = await instance.workspace();
      const exports = instance.app.services.shares.of("exports");
      const [live, test] = [cellOwner(workspace.id, "live"), cellOwner(workspace.id, "test")];
      const get = (as: "sk_owner" | "sk_test") => workspace.call(as, "GET /v1/audit_logs/export");
      expect((await get("sk_owner")).status).toBe(200);
      expect((await workspace.call("sk_owner", "HEAD /v1/audit_logs/export")).status).toBe(200);
      await until(() => exports.usedBy(live) === 0);
      exports.take(live, 4); // four whose clients take their time
      const refused = await get("sk_owner");
      expectRefusal(refused, 429, "rate_limited");
      expect(refused.headers.get("ratelimit-policy")).toBe('"audit_export";q=4;w=60');
      expect((await get("sk_test")).status).toBe(200);
      await until(() => exports.usedBy(test) === 0);
      exports.take(test);
      expect((await get("sk_test")).headers.get("ratelimit-policy")).toBe('"audit_export";q=1;w=60');
      exports.release(test);
      exports.release(live, 4);
      expect((await get("sk_owner")).status).toBe(200);
    });
  });
}
