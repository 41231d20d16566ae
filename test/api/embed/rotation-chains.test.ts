// Rotating a successor, on the two planes of customers and by the vendor: how many keys of a lineage work.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { embed } from "../../../harness/instances/embed.ts";
import { sharedInstance } from "../../../harness/instances/test-instance.ts";

const WEEK = { overlap_hours: 168 };
type Rotated = { id: string; key: string; policy_version?: number };

for (const backend of runBackends) {
  describe(`a chain of rotations on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const fixture = async () => {
      const e = await embed(instance);
      const workspace = e.workspace;
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, {
        key_policy: { holder_rotate: true },
      });
      const first = await workspace.mint();
      const rotations = async () => {
        const { data } = (await workspace.call("sk_owner", "GET /v1/audit_logs?action=api_key.rotated")).body;
        return (data as { payload: object }[]).map(({ payload }) => payload);
      };
      const working = async (keys: readonly Rotated[]) => {
        const statuses = await Promise.all(keys.map(({ key }) => instance.call(key, "GET /v1/self")));
        return statuses.map(({ status }) => status === 200);
      };
      return { e, workspace, first, rotations, working };
    };

    for (const plane of ["portal", "holder"] as const) {
      it(`leaves two working keys when made by the ${plane}, and names the one that ended`, async () => {
        const { e, workspace, first, rotations, working } = await fixture();
        const keys: Rotated[] = [first];
        for (let i = 0; i < 3; i++) {
          const { id, key } = keys.at(-1)!;
          const reply =
            plane === "portal"
              ? await e.call(`POST /v1/embed/keys/${id}/rotate`, WEEK)
              : await instance.call(key, "POST /v1/self/rotate", WEEK);
          expect(reply.status, reply.text).toBe(200);
          keys.push(reply.body);
        }
        expect(await working(keys)).toEqual([false, false, true, true]);
        const now = new Date(instance.clock.now()).toISOString();
        const ended = (await workspace.call("sk_owner", `GET /v1/keys/${keys[1]!.id}`)).body;
        expect([ended.expires_at, ended.revoked_at]).toEqual([now, null]);
        expect(ended.policy_version).toBe(keys[3]!.policy_version);
        const payloads = await rotations();
        expect(payloads).toMatchObject(keys.slice(1).map(({ id }) => ({ successor_id: id, overlap_hours: 168 })));
        const ids = payloads.map((payload) => ("ended_id" in payload ? payload.ended_id : null));
        expect(ids).toEqual([null, keys[0]!.id, keys[1]!.id]);
      });
    }

    it("keeps every overlap when made by the vendor", async () => {
      const { workspace, first, rotations, working } = await fixture();
      const keys: Rotated[] = [first];
      for (let i = 0; i < 3; i++)
        keys.push((await workspace.call("sk_owner", `POST /v1/keys/${keys.at(-1)!.id}/rotate`, WEEK)).body);
      expect(await working(keys)).toEqual([true, true, true, true]);
      for (const payload of await rotations()) expect(payload).not.toHaveProperty("ended_id");
    });

    it("keeps an overlap that the vendor granted when the customer rotates next", async () => {
      const { e, first, workspace, rotations, working } = await fixture();
      const keys: Rotated[] = [first];
      keys.push((await workspace.call("sk_owner", `POST /v1/keys/${first.id}/rotate`, WEEK)).body);
      for (let i = 0; i < 2; i++) keys.push((await e.call(`POST /v1/embed/keys/${keys.at(-1)!.id}/rotate`, WEEK)).body);
      expect(await working(keys)).toEqual([true, false, true, true]);
      const ids = (await rotations()).map((payload) => ("ended_id" in payload ? payload.ended_id : null));
      expect(ids).toEqual([null, null, keys[1]!.id]);
    });

    it("neither ends again nor extends a predecessor that no longer works", async () => {
      const { e, workspace, first } = await fixture();
      const second = (await e.call(`POST /v1/embed/keys/${first.id}/rotate`, WEEK)).body;
      await workspace.call("sk_owner", `POST /v1/keys/${first.id}/revoke`, {});
      const before = (await workspace.call("sk_owner", `GET /v1/keys/${first.id}`)).body;
      expect((await e.call(`POST /v1/embed/keys/${second.id}/rotate`, WEEK)).status).toBe(200);
      expect((await workspace.call("sk_owner", `GET /v1/keys/${first.id}`)).body).toEqual(before);
    });
  });
}
