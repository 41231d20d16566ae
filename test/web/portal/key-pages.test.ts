// Which pages of keys the portal reads.
import { expect, it } from "vitest";
import { fetchKeys, type Reader } from "../../../src/web/portal/key-pages.ts";

/** A server with this many keys, whose ids are their places; `asked` has the queries. */
function server(total: number): { api: Reader; asked: URLSearchParams[] } {
  const asked: URLSearchParams[] = [];
  const get = async <T>(path: string): Promise<T> => {
    const query = new URLSearchParams(path.split("?")[1]);
    asked.push(query);
    const from = Number(query.get("after") ?? 0);
    const to = Math.min(total, from + Number(query.get("limit")));
    const data = Array.from({ length: to - from }, (_, i) => ({ id: String(from + i + 1) }));
    return (to < total ? { data, has_more: true } : { data }) as T;
  };
  return { api: { get }, asked };
}

it("reads as many pages as are shown, each after the last key of the one before", async () => {
  const { api, asked } = server(250);
  const first = await fetchKeys(api, 1, false);
  expect([first.data.length, first.has_more]).toEqual([100, true]);
  const second = await fetchKeys(api, 2, true);
  expect([second.data.length, second.has_more, second.data.at(-1)?.id]).toEqual([200, true, "200"]);
  expect(asked.map((query) => [query.get("after"), query.get("include_revoked")])).toEqual([
    [null, "false"],
    [null, "true"],
    ["100", "true"],
  ]);
});

it("stops at the last page, also when fewer are left than were shown", async () => {
  const { api, asked } = server(120);
  const all = await fetchKeys(api, 5, false);
  expect([all.data.length, all.has_more, asked.length]).toEqual([120, undefined, 2]);
});
