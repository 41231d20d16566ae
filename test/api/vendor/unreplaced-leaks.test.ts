// The overview's figure of leaked keys: those that still need a successor.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { scannerFixture } from "../../../harness/instances/scanner.ts";
import type { Json, Workspace } from "../../../harness/instances/test-instance.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`leaked keys in the overview on ${backend}`, () => {
    const { now: instance, labels } = scannerFixture(backend);

    const leaks = async (workspace: Workspace): Promise<Json> => {
      instance().clock.advance(3_000); // figures are kept for two seconds
      return (await workspace.call("sk_owner", "GET /v1/overview")).body.leaks;
    };
    const inAnHour = (): string => new Date(instance().clock.now() + 60 * MINUTE_MS).toISOString();
    const newSecretKey = async (workspace: Workspace, body: object = {}): Promise<{ id: string; key: string }> =>
      (await workspace.call("sk_owner", "POST /v1/secret_keys", { env: "live", name: "leaky", ...body })).body;

    it("count API keys and secret keys until each has a successor, and say when the first stops", async () => {
      const workspace = await instance().workspace();
      expect(await leaks(workspace)).toEqual({ unreplaced: 0, stops_at: null });
      const secret = await newSecretKey(workspace);
      await labels(secret.key);
      const listed = async (query: string, by: "sk_owner" | "sk_test" = "sk_owner"): Promise<string[]> =>
        (await workspace.call(by, `GET /v1/secret_keys?${query}`)).body.data.map(({ id }: { id: string }) => id);
      expect(await listed("state=quarantined")).toEqual([secret.id]);
      expect(await listed("state=quarantined&env=live&limit=1")).toEqual([secret.id]);
      expect(await listed("state=quarantined&env=test")).toEqual([]);
      expect(await listed("state=quarantined", "sk_test")).toEqual([]);
      expect(await listed("env=test")).toEqual([workspace.keyIds.sk_test]);
      const first = inAnHour();
      expect(await leaks(workspace)).toEqual({ unreplaced: 1, stops_at: first });
      instance().clock.advance(10 * MINUTE_MS);
      const key = await workspace.mint({ name: "CI" });
      await labels(key.key);
      const second = inAnHour();
      expect(await leaks(workspace)).toEqual({ unreplaced: 2, stops_at: first });
      const other = (await workspace.call("sk_test", "GET /v1/overview")).body;
      expect(other.leaks).toEqual({ unreplaced: 0, stops_at: null });

      await workspace.call("sk_owner", `POST /v1/secret_keys/${secret.id}/rotate`, {});
      expect(await leaks(workspace)).toEqual({ unreplaced: 1, stops_at: second });
      const rotated = (await workspace.call("sk_owner", `POST /v1/keys/${key.id}/rotate`, {})).body;
      expect(await leaks(workspace)).toEqual({ unreplaced: 0, stops_at: null });
      const { body } = await workspace.call("sk_owner", "GET /v1/overview");
      expect(body.keys.quarantined).toBe(1); // as the list of that state
      await workspace.call("sk_owner", `POST /v1/keys/${rotated.id}/revoke`, {});
      await workspace.call("sk_owner", `POST /v1/secret_keys/${secret.id}/revoke`, {});
      expect(await listed("state=quarantined")).toEqual([]);
      expect(await leaks(workspace)).toEqual({ unreplaced: 1, stops_at: second });
      instance().clock.advance(60 * MINUTE_MS);
      expect(await leaks(workspace)).toEqual({ unreplaced: 0, stops_at: null });
    });

    it("show a key of one project nothing of others", async () => {
      const workspace = await instance().workspace();
      const own = (await workspace.call("sk_owner", "POST /v1/projects", { name: "Own", slug: "own" })).body
        .id as string;
      const restricted = await newSecretKey(workspace, { permissions: ["read"], project_ids: [own] });
      const [elsewhere, here] = [
        await workspace.mint({ name: "a" }),
        await workspace.mint({ name: "b", project_id: own }),
      ];
      await labels((await newSecretKey(workspace)).key, elsewhere.key);
      const seen = async (): Promise<number> =>
        (await instance().call(restricted.key, "GET /v1/overview")).body.leaks.unreplaced;
      expect(await seen()).toBe(0);
      await labels(here.key);
      expect(await seen()).toBe(1);
      expect((await leaks(workspace)).unreplaced).toBe(3);
    });
  });
}
