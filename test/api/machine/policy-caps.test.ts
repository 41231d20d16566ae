// What a node gets depends on what it announces to enforce. A node that announces nothing, as every library of an
// earlier release, never gets a key that it could admit wrongly.
import { beforeEach, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { policyFeed, type Entry } from "../../../harness/instances/policy-feed.ts";
import {
  expectRefusal,
  type Reply,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { until } from "../../../harness/waiting.ts";

const ALL = "&caps=cidr,disabled,formats";

for (const backend of runBackends) {
  describe(`capabilities on ${backend}`, () => {
    const { now, snapshot, delta, version, ids } = policyFeed(backend);
    let instance: TestInstance;
    let workspace: Workspace;
    beforeEach(() => {
      ({ instance, workspace } = now());
    });

    const disable = (id: string) => workspace.call("sk_owner", `POST /v1/keys/${id}/disable`, {});
    const enable = (id: string) => workspace.call("sk_owner", `POST /v1/keys/${id}/enable`, {});
    const entries = (reply: Reply): Entry[] => reply.body.keys ?? reply.body.changes;
    const bytes = ({ text }: Reply): string => text.replace(/"generated_at":"[^"]*"/, "");

    it("are refused when malformed, and unknown ones are ignored", async () => {
      for (const caps of ["", "A", "cidr,cidr", "cidr,", "x".repeat(33), "cidr&caps=disabled"]) {
        expectRefusal(await snapshot(`&caps=${caps}`), 400, "invalid_request", "caps");
        expectRefusal(await delta(1, `&caps=${caps}`), 400, "invalid_request", "caps");
      }
      expect((await snapshot("&caps=from_the_future")).status).toBe(200);
    });

    it("make no difference to a project that uses none of them: same bytes, same tags", async () => {
      const [a] = [await workspace.mint({ scopes: ["a"] }), await workspace.mint()];
      const at = await version();
      await workspace.call("sk_owner", `POST /v1/keys/${a.id}/revoke`, {});
      for (const read of [snapshot, (more: string) => delta(at, more), (more: string) => delta(at + 1, more)]) {
        const [plain, capable] = [await read(""), await read(ALL)];
        expect(bytes(capable)).toBe(bytes(plain));
        expect([capable.status, capable.headers.get("etag")]).toEqual([plain.status, plain.headers.get("etag")]);
      }
    });

    it("decide whether a disabled key is an entry that says so, or absent", async () => {
      const key = await workspace.mint();
      const at = await version();
      await disable(key.id);
      const identity = { key_id: key.id, env: "live", display_prefix: key.display_prefix };
      expect(entries(await delta(at))).toEqual([
        {
          change: "remove",
          ...identity,
          tenant_id: workspace.tenant_id,
          lookup_hash: expect.any(String),
          reason: "disabled",
        },
      ]);
      for (const caps of [ALL, "&caps=disabled"])
        expect(entries(await delta(at, caps))).toEqual([
          expect.objectContaining({ change: "upsert", ...identity, disabled: "key" }),
        ]);
      expect(entries(await delta(at, "&caps=cidr,formats"))[0]).toMatchObject({ change: "remove" });
      expect(ids(await snapshot())).toEqual([]);
      expect(entries(await snapshot(ALL))).toEqual([expect.objectContaining({ ...identity, disabled: "key" })]);
      await enable(key.id);
      for (const caps of ["", ALL]) {
        const [entry] = entries(await snapshot(caps));
        expect(entry).toMatchObject(identity);
        expect(entry).not.toHaveProperty("disabled");
        expect(entries(await delta(at + 1, caps))[0]).not.toHaveProperty("disabled");
      }
    });

    it("are in the tag as far as they matter, so that no variant confirms another", async () => {
      const key = await workspace.mint();
      await disable(key.id);
      const at = await version();
      const tag = async (more: string) => (await snapshot(more)).headers.get("etag");
      const plain = `W/"snap:${workspace.project_id}:all:all:${at}"`;
      const variant = `W/"snap:${workspace.project_id}:all:all+disabled:${at}"`;
      expect([await tag(""), await tag(ALL), await tag("&caps=disabled"), await tag("&caps=cidr")]).toEqual([
        plain,
        variant,
        variant,
        plain,
      ]);
      expect((await snapshot(ALL, { "if-none-match": variant })).status).toBe(304);
      expect((await snapshot(ALL, { "if-none-match": plain })).status).toBe(200);
      expect((await snapshot("", { "if-none-match": variant })).status).toBe(200);
      const delta_ = `W/"delta:${workspace.project_id}:all:all+disabled:${at}"`;
      expect((await delta(at - 1, "", { "if-none-match": delta_ })).status).toBe(200);
      expect((await delta(at - 1, ALL, { "if-none-match": delta_ })).status).toBe(304);
      expect([(await delta(at)).status, (await delta(at, ALL)).status]).toEqual([304, 304]);
    });

    it("leave keys out before paging: no page is empty, and max_keys counts what is served", async () => {
      const keys = [];
      for (let i = 0; i < 6; i++) keys.push((await workspace.mint()).id);
      for (const id of keys.slice(0, 4)) await disable(id);
      const walk = async (more: string): Promise<string[][]> => {
        const pages: string[][] = [];
        for (let cursor: string | null = ""; cursor !== null; ) {
          const page: Reply = await snapshot(`&max_keys=1${more}${cursor && `&cursor=${cursor}`}`);
          pages.push(ids(page));
          cursor = page.body.next_cursor as string | null;
        }
        return pages;
      };
      expect(await walk(ALL)).toEqual(keys.map((id) => [id]));
      expect(await walk("")).toEqual(keys.slice(4).map((id) => [id]));
      // Two keys are served, six are not more than that: the whole snapshot fits the ceiling of four.
      expect([(await snapshot()).status, (await snapshot(ALL)).status]).toEqual([200, 413]);
    });

    it("bind a cursor: pages for nodes that enforce different things are never mixed", async () => {
      const keys = [await workspace.mint(), await workspace.mint(), await workspace.mint()];
      await disable(keys[2]!.id);
      const cursorOf = async (more: string) => (await snapshot(`&max_keys=1${more}`)).body.next_cursor as string;
      const [plain, capable] = [await cursorOf(""), await cursorOf(ALL)];
      expectRefusal(await snapshot(`&max_keys=1&cursor=${capable}`), 400, "invalid_request", "cursor");
      expectRefusal(await snapshot(`&max_keys=1&cursor=${plain}${ALL}`), 400, "invalid_request", "cursor");
      expect(ids(await snapshot(`&max_keys=4&cursor=${capable}${ALL}`))).toEqual([keys[1]!.id, keys[2]!.id]);
      expect(ids(await snapshot(`&max_keys=4&cursor=${plain}`))).toEqual([keys[1]!.id]);
    });

    it("may begin to matter between two pages; the next delta then corrects what was served", async () => {
      const keys = [await workspace.mint(), await workspace.mint(), await workspace.mint()];
      const first = await snapshot(`&max_keys=1${ALL}`);
      await disable(keys[0]!.id);
      await disable(keys[2]!.id);
      const rest = await snapshot(`&max_keys=4${ALL}&cursor=${first.body.next_cursor}`);
      expect(entries(rest)).toMatchObject([{ key_id: keys[1]!.id }, { key_id: keys[2]!.id, disabled: "key" }]);
      const since = first.body.version as number;
      expect(entries(await delta(since, ALL)).map(({ key_id, disabled }) => [key_id, disabled])).toEqual([
        [keys[0]!.id, "key"],
        [keys[2]!.id, "key"],
      ]);
    });

    it("of each waiting node decide what it is woken with", async () => {
      const key = await workspace.mint();
      const at = await version();
      const polls = ["", ALL, "", ALL].map((caps) => delta(at, `&wait_ms=25000${caps}`));
      await until(() => instance.app.services.feed.waiting === 4);
      await disable(key.id);
      const changes = (await Promise.all(polls)).map((reply) => entries(reply)[0]);
      expect(changes.map((entry) => entry?.reason ?? entry?.disabled)).toEqual(["disabled", "key", "disabled", "key"]);
    });

    it("are recorded with each node, and what it lacks is named", async () => {
      const key = await workspace.mint();
      const at = await version();
      const restricted = await workspace.call("sk_owner", "POST /v1/secret_keys", {
        env: "live",
        permissions: ["verify"],
      });
      const poll = async (node: string, more: string, bearer = workspace.keys.sk_owner): Promise<void> => {
        await instance.call(
          bearer,
          `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${at}&node=${node}${more}`,
        );
        await instance.app.services.nodes.flushed();
      };
      await poll("old", "");
      await poll("new", "&caps=formats,other,disabled", restricted.body.key);
      const shown = async () => {
        const { body } = await workspace.call("sk_owner", `GET /v1/nodes?project_id=${workspace.project_id}`);
        const rows = body.data.map((node: Record<string, unknown>) => [
          node.node_id,
          { caps: node.caps, missing_caps: node.missing_caps, full_power: node.full_power },
        ]);
        return Object.fromEntries(rows);
      };
      const capable = { caps: ["disabled", "formats"], missing_caps: [], full_power: false };
      expect(await shown()).toEqual({ old: { caps: [], missing_caps: [], full_power: true }, new: capable });
      await disable(key.id);
      expect(await shown()).toEqual({
        old: { caps: [], missing_caps: ["disabled"], full_power: true },
        new: capable,
      });
      const path = `GET /v1/propagation?project_id=${workspace.project_id}&version=${at}`;
      expect((await workspace.call("sk_owner", path)).body).toMatchObject({
        complete: true,
        withheld_nodes: 1,
        nodes: [
          { node_id: "new", caps: ["disabled", "formats"], missing_caps: [] },
          { node_id: "old", caps: [], missing_caps: ["disabled"] },
        ],
      });
      await poll("old", ALL); // upgraded: news, although its version is not
      expect((await shown()).old).toEqual({
        caps: ["cidr", "disabled", "formats"],
        missing_caps: [],
        full_power: true,
      });
      expect((await workspace.call("sk_owner", path)).body.withheld_nodes).toBe(0);
    });
  });
}
