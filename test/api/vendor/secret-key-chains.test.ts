// A restricted secret key that rotates itself does not multiply, and one call ends what rotations made of a key.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { auditRows } from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, type TestInstance } from "../../../harness/instances/test-instance.ts";
import { actsAfterEnd } from "../../../harness/models/ended-credentials.ts";

const WEEK = { overlap_hours: 168 };
type Minted = { id: string; key: string };

for (const backend of runBackends) {
  describe(`a chain of secret keys on ${backend}`, () => {
    const instance = sharedInstance(backend);

    async function fixture() {
      const workspace = await instance.workspace();
      const body = { env: "live", permissions: ["read"] };
      const first: Minted = (await workspace.call("sk_owner", "POST /v1/secret_keys", body)).body;
      const rotate = (key: Minted, how: object = WEEK) =>
        instance.call(key.key, `POST /v1/secret_keys/${key.id}/rotate`, how);
      const byOwner = async (key: Minted): Promise<Minted> =>
        (await workspace.call("sk_owner", `POST /v1/secret_keys/${key.id}/rotate`, WEEK)).body;
      const revoke = (id: string, query = "") =>
        workspace.call("sk_owner", `POST /v1/secret_keys/${id}/revoke${query}`, { reason: "leaked" });
      const working = async (keys: readonly Minted[]): Promise<boolean[]> => {
        const replies = await Promise.all(keys.map(({ key }) => instance.call(key, "GET /v1/projects")));
        return replies.map(({ status }) => status === 200);
      };
      const revocations = async () => {
        const rows = await auditRows(instance, workspace.id);
        return rows.filter(({ action }) => action === "secret_key.revoked");
      };
      return { workspace, first, rotate, byOwner, revoke, working, revocations };
    }

    /** The key, and what it and its successors made of themselves. */
    async function ownChain(first: Minted, rotate: (key: Minted) => ReturnType<TestInstance["call"]>, length: number) {
      const keys = [first];
      for (let i = 0; i < length; i++) {
        const reply = await rotate(keys.at(-1)!);
        expect(reply.status, reply.text).toBe(200);
        keys.push(reply.body);
        instance.clock.advance(1);
      }
      return keys;
    }

    it("revokes at most 100 successors in one call", async () => {
      const { first, byOwner, revoke } = await fixture();
      for (let i = 0; i < 101; i++) await byOwner(first);
      const counts = [];
      for (let i = 0; i < 3; i++) counts.push((await revoke(first.id, "?successors=true")).body.revoked_successors);
      expect(counts).toEqual([100, 1, 0]);
    });

    it("refuses a restricted key a second line while a later successor works", async () => {
      const { first, rotate, byOwner, working } = await fixture();
      const second = await byOwner(first);
      const third: Minted = (await rotate(second, { overlap_hours: 0 })).body;
      expectRefusal(await rotate(first), 409, "conflict");
      expect(await working([first, second, third])).toEqual([true, false, true]);
    });

    it("refuses a restricted key a second successor while the first works", async () => {
      const { first, rotate, revoke, working } = await fixture();
      const second: Minted = (await rotate(first)).body;
      expectRefusal(await rotate(first), 409, "conflict");
      expectRefusal(await rotate(first, { overlap_hours: 0 }), 409, "conflict");
      expect(await working([first, second])).toEqual([true, true]);
      await revoke(second.id);
      expect((await rotate(first)).status).toBe(200);
    });

    it("leaves two working keys when a restricted key rotates itself, one audit row for each that ended", async () => {
      const { workspace, first, rotate, working, revocations } = await fixture();
      const keys = await ownChain(first, rotate, 3);
      expect(await working(keys)).toEqual([false, false, true, true]);
      expect(await revocations()).toMatchObject([
        { target_id: keys[0]!.id, actor_id: keys[1]!.id, payload: { env: "live", reason: "superseded" } },
        { target_id: keys[1]!.id, actor_id: keys[2]!.id, payload: { env: "live", reason: "superseded" } },
      ]);
      const shown = (await workspace.call("sk_owner", `GET /v1/secret_keys/${keys[1]!.id}`)).body;
      expect(shown).toMatchObject({ revoked_reason: "superseded" });
      expect(actsAfterEnd(await auditRows(instance, workspace.id))).toEqual([]);
    });

    it("leaves at most two unrevoked keys when it rotates itself without an overlap", async () => {
      const { workspace, first, rotate } = await fixture();
      const unrevoked = () =>
        instance.sql(
          "select id from secret_keys where workspace_id = $1 and revoked_at is null order by created_at, id",
          [workspace.id],
        );
      const before = (await unrevoked()).length;
      const keys = await ownChain(first, (key) => rotate(key, { overlap_hours: 0 }), 5);
      const left = await unrevoked();
      expect(left.length).toBe(before + 1);
      expect(left.slice(-2).map(({ id }) => id)).toEqual(keys.slice(-2).map(({ id }) => id));
    });

    it("keeps an overlap that another key granted", async () => {
      const { first, rotate, byOwner, working, revocations } = await fixture();
      const second = await byOwner(first);
      expectRefusal(await rotate(first), 409, "conflict");
      const third: Minted = (await rotate(second)).body;
      expect(await working([first, second, third])).toEqual([true, true, true]);
      expect(await revocations()).toEqual([]);
    });

    it("lets others rotate a key whose successor works", async () => {
      const { workspace, first, rotate, byOwner, working } = await fixture();
      const second: Minted = (await rotate(first)).body;
      const third = await byOwner(first);
      expect(await working([first, second, third])).toEqual([true, true, true]);
      const own = { id: workspace.keyIds.sk_admin, key: workspace.keys.sk_admin };
      expect([(await rotate(own)).status, (await rotate(own)).status]).toEqual([200, 200]);
    });

    it("ends every successor in one call, also those of an ended key, and no other key", async () => {
      const { workspace, first, rotate, byOwner, revoke, working, revocations } = await fixture();
      const line = await ownChain(first, rotate, 3);
      const branch = await byOwner(line[2]!);
      const other = await byOwner({ id: workspace.keyIds.sk_admin, key: workspace.keys.sk_admin });
      const from = (await revocations()).length;
      await revoke(first.id);
      const reply = await revoke(first.id, "?successors=true");
      expect(reply.body).toMatchObject({ id: first.id, revoked_reason: "superseded", revoked_successors: 3 });
      expect(await working([...line, branch, other])).toEqual([false, false, false, false, false, true]);
      const ended = (await revocations()).slice(from);
      const payload = { env: "live", reason: "leaked" };
      expect(ended).toMatchObject([line[2], line[3], branch].map((each) => ({ target_id: each!.id, payload })));
      expect((await revoke(first.id, "?successors=true")).body).toMatchObject({ revoked_successors: 0 });
      expect((await revocations()).length).toBe(from + 3);
      expect((await revoke(other.id)).body).not.toHaveProperty("revoked_successors");
    });

    it("ends the acting key last where it is among the successors", async () => {
      const workspace = await instance.workspace();
      const start = `POST /v1/secret_keys/${workspace.keyIds.sk_owner}`;
      const second: Minted = (await workspace.call("sk_owner", `${start}/rotate`, WEEK)).body;
      const third: Minted = (await instance.call(second.key, `POST /v1/secret_keys/${second.id}/rotate`, WEEK)).body;
      const reply = await instance.call(second.key, `${start}/revoke?successors=true`, {});
      expect(reply.body).toMatchObject({ id: workspace.keyIds.sk_owner, revoked_successors: 2 });
      const rows = (await auditRows(instance, workspace.id)).filter(({ action }) => action === "secret_key.revoked");
      expect(rows.map(({ target_id }) => target_id)).toEqual([workspace.keyIds.sk_owner, third.id, second.id]);
      expect(actsAfterEnd(await auditRows(instance, workspace.id))).toEqual([]);
      for (const { key } of [second, third]) expect((await instance.call(key, "GET /v1/projects")).status).toBe(401);
    });

    it("does not let a restricted key end its successors", async () => {
      const { first, rotate, working } = await fixture();
      const second: Minted = (await rotate(first)).body;
      const reply = await instance.call(first.key, `POST /v1/secret_keys/${first.id}/revoke?successors=true`, {});
      expectRefusal(reply, 403, "forbidden");
      expect(reply.body.error.details).toEqual([{ path: "permissions", message: "needs an unrestricted key" }]);
      expect(await working([first, second])).toEqual([true, true]);
    });
  });
}
