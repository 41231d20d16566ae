// Lists of keys name the working key that replaces each.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedInstance } from "../../../harness/instances/test-instance.ts";
import type { Reply } from "../../../harness/processes/send.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`successors in lists on ${backend}`, () => {
    const instance = sharedInstance(backend);

    for (const [noun, lists] of [
      ["keys", ["", "limit=1", "sort=created_at", "include=last_used", "env=live&include_revoked=true"]],
      ["secret_keys", ["", "limit=1", "env=live"]],
    ] as const)
      it(`name a working successor of ${noun}, and none that has ended`, async () => {
        const workspace = await instance.workspace();
        const call = async (route: string, body?: object): Promise<Reply["body"]> =>
          (await workspace.call("sk_owner", route, body)).body;
        const rotate = async (id: string): Promise<string> => (await call(`POST /v1/${noun}/${id}/rotate`, {})).id;
        const create = async (): Promise<string> =>
          noun === "keys"
            ? (await workspace.mint({ env: "live" })).id
            : (await call("POST /v1/secret_keys", { env: "live" })).id;
        const id = await create();
        /** What every list says of the key; a page of one row says it of the last. */
        const successors = async (): Promise<unknown[]> => {
          const said: unknown[] = [];
          for (const query of lists) {
            const { data } = await call(`GET /v1/${noun}?${query}`);
            const row = data.find((each: { id: string }) => each.id === id);
            if (row) said.push(row.successor_id);
            else expect(data[0].successor_id).toBe(null); // a new key has none
          }
          return [...new Set(said)];
        };
        expect(await successors()).toEqual([null]);
        const first = await rotate(id);
        instance.clock.advance(1);
        expect(await successors()).toEqual([first]);
        const second = await rotate(id);
        expect([[first], [second]]).toContainEqual(await successors());
        await call(`POST /v1/${noun}/${second}/revoke`, {});
        expect(await successors()).toEqual([first]);
        await call(`POST /v1/${noun}/${first}/revoke`, {});
        expect(await successors()).toEqual([null]);

        // A successor that has expired replaces nothing.
        if (noun === "keys") {
          const third = await rotate(id);
          const expires_at = new Date(instance.clock.now() + HOUR_MS).toISOString();
          await call(`PATCH /v1/keys/${third}`, { expires_at });
          expect(await successors()).toEqual([third]);
          instance.clock.advance(2 * HOUR_MS);
          expect(await successors()).toEqual([null]);
        }
      });

    it("show a restricted secret key its own successor", async () => {
      const workspace = await instance.workspace();
      const created = { env: "live", permissions: ["read"] };
      const own = (await workspace.call("sk_owner", "POST /v1/secret_keys", created)).body;
      const rotated = await instance.call(own.key, `POST /v1/secret_keys/${own.id}/rotate`, {});
      const { body } = await instance.call(own.key, "GET /v1/secret_keys");
      expect(body.data).toEqual([expect.objectContaining({ id: own.id, successor_id: rotated.body.id })]);
    });
  });
}
