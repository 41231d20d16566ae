// The tenant's keys on the embed plane, page by page.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { embed } from "../../../harness/instances/embed.ts";
import { expectRefusal, sharedInstance } from "../../../harness/instances/test-instance.ts";

const NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057";

for (const backend of runBackends) {
  describe(`pages of the embed plane on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("lists the keys page by page after the id of the last one, which must be in the list", async () => {
      const e = await embed(instance);
      const other = await embed(instance);
      const ids: string[] = [];
      for (let i = 0; i < 5; i++) {
        instance.clock.advance(1);
        ids.unshift((await e.workspace.mint()).id);
      }
      const listed: string[] = [];
      const sizes: number[] = [];
      for (;;) {
        const after = listed.length > 0 ? `&after=${listed.at(-1)}` : "";
        const { body } = await e.call(`GET /v1/embed/keys?limit=2${after}`);
        const page = body.data as { id: string }[];
        listed.push(...page.map(({ id }) => id));
        sizes.push(page.length);
        if (!body.has_more) break;
      }
      expect([listed, sizes]).toEqual([ids, [2, 2, 1]]);
      const elsewhere = [NOWHERE, (await other.workspace.mint()).id, (await e.workspace.mint({ env: "test" })).id];
      for (const id of elsewhere)
        expectRefusal(await e.call(`GET /v1/embed/keys?after=${id}`), 400, "invalid_request", "after");
    });
  });
}
