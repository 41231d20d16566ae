// Pages of a list: each row is serialised once, no turn of the event loop holds many wide rows, and the size is counted
// in bytes.
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Services } from "../../../src/domain/core/context.ts";
import { hasMoreField, readPage } from "../../../src/domain/core/list.ts";

type Row = { id: number };
const rowsOf = (from: number, count: number): Row[] => Array.from({ length: count }, (_, i) => ({ id: from + i }));
const servicesWith = (answer_max_bytes: number) => ({ settings: { answer_max_bytes } }) as Services;

const shownBy = <T>(view: (row: Row) => T) => ({ viewer: () => view, fields: hasMoreField });

/** `total` rows that are read `width` at a time, and the turns of the event loop in which they were. */
function table(total: number, width: number) {
  let turn = 0;
  const tick = (): void => {
    turn++;
    ticking = setImmediate(tick);
  };
  let ticking = setImmediate(tick);
  const readIn: number[] = [];
  const shownIn: number[] = [];
  return {
    readIn,
    shownIn,
    read: async (limit: number, last: Row | null) => {
      readIn.push(turn);
      const from = (last?.id ?? -1) + 1;
      const wanted = Math.min(limit + 1, total - from);
      return { rows: rowsOf(from, Math.min(wanted, width)), isCut: wanted >= width };
    },
    view: (row: Row) => {
      shownIn.push(turn);
      return row;
    },
    end: () => clearImmediate(ticking),
  };
}

describe("a page of a list", () => {
  afterEach(() => vi.restoreAllMocks());

  it("has every row once, and says whether there are more, wherever its pieces are cut", async () => {
    for (const total of [0, 1, 5, 6, 7, 12])
      for (const max of [1, 5, 6, 7, 20])
        for (const width of [1, 2, 3, 6, 7, 100]) {
          const { read, view, end } = table(total, width);
          const page = (await readPage(servicesWith(1e6), { max, pieceRows: 6, read, ...shownBy(view) })).parse();
          end();
          const shown = Math.min(total, max);
          expect(page).toEqual({ object: "list", data: rowsOf(0, shown), ...(total > max && { has_more: true }) });
        }
  });

  it("reads each piece in a turn of its own", async () => {
    const { read, view, readIn, end } = table(20, 2);
    await readPage(servicesWith(1e6), { max: 100, read, ...shownBy(view) });
    end();
    expect(readIn.length).toBeGreaterThanOrEqual(10);
    expect(new Set(readIn).size).toBe(readIn.length);
  });

  it("yields while it serialises rows that take long", async () => {
    let now = 0;
    vi.spyOn(performance, "now").mockImplementation(() => (now += 3));
    const { read, view, shownIn, end } = table(30, 100);
    await readPage(servicesWith(1e6), { max: 100, read, ...shownBy(view) });
    end();
    const perTurn = Map.groupBy(shownIn, (turn) => turn);
    expect(Math.max(...[...perTurn.values()].map((rows) => rows.length))).toBeLessThanOrEqual(2);
  });

  it("serialises each row once, also where it is encoded in chunks", async () => {
    let serialised = 0;
    const text = "é".repeat(10_000);
    const view = ({ id }: Row) => ({ toJSON: () => (serialised++, { id, text }) });
    const read = async () => ({ rows: rowsOf(0, 40), isCut: false });
    const page = await readPage(servicesWith(1e9), { max: 40, read, ...shownBy(view) });
    expect(serialised).toBe(40);
    expect(Array.isArray(page.body)).toBe(true);
    expect(page.parse()).toEqual({ object: "list", data: rowsOf(0, 40).map(({ id }) => ({ id, text })) });
  });

  it("ends at the maximum size in bytes of UTF-8, with at least one row", async () => {
    const row = { text: "😀".repeat(25) }; // 100 bytes, 50 UTF-16 units
    const bytes = Buffer.byteLength(JSON.stringify(row)) + 1;
    for (const [max, shown] of [
      [3 * bytes, 3],
      [3 * bytes - 1, 2],
      [1, 1],
    ] as const) {
      const page = await readPage(servicesWith(max), {
        max: 10,
        read: async () => ({ rows: rowsOf(0, 5), isCut: false }),
        viewer: () => () => row,
        fields: ({ last, hasMore }) => ({ last: last?.id, hasMore }),
      });
      const data = Array.from({ length: shown }, () => row);
      expect(page.parse()).toEqual({ object: "list", data, last: shown - 1, hasMore: true });
    }
  });
});
