// A paged snapshot: the next page is prefetched for a client that receives one, and for no other.
import { describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";

const KEYS = 5;

for (const backend of runBackends) {
  describe(`a snapshot in pages on ${backend}`, () => {
    it("prefetches the next page for a client that received one, and for no other", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      const made: string[] = [];
      for (let i = 0; i < KEYS; i++) made.push((await workspace.mint()).id);
      const { pages } = instance.app.services.feed;
      const ask = (path: string, headers = {}) =>
        workspace.call("sk_owner", `GET /v1/policy/${path}&project_id=${workspace.project_id}`, undefined, { headers });

      const prepare = vi.spyOn(pages, "prefetch");
      const spared = await ask("delta?since=0&max_keys=2", { "if-none-match": "*" });
      expect([spared.status, prepare.mock.calls.length]).toEqual([304, 0]);
      const { bytes } = pages;

      const first = await ask("snapshot?max_keys=2");
      const ids = ({ body }: typeof first) => (body.keys as { key_id: string }[]).map(({ key_id }) => key_id);
      expect(ids(first)).toEqual(made.slice(0, 2));
      await expect.poll(() => pages.bytes).toBeGreaterThan(bytes); // the requested page was cached already
      const { hits } = pages.reads;
      const second = await ask(`snapshot?max_keys=2&cursor=${first.body.next_cursor as string}`);
      expect([ids(second), pages.reads.hits]).toEqual([made.slice(2, 4), hits + 1]);
      const third = await ask(`snapshot?max_keys=2&cursor=${second.body.next_cursor as string}`);
      expect([ids(third), third.body.next_cursor]).toEqual([made.slice(4), null]);
    });
  });
}
