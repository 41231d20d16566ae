// A large batch is parsed in pieces, with the result that parsing it at once would have.
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { ingestBatch } from "../../../src/api/machine/ingest.ts";
import { usedFields, checkEvents, type EventBatch } from "../../../src/domain/ingest/events.ts";
import { parseBatch, parseInPieces, type ParsedBatch } from "../../../src/domain/ingest/parse.ts";
import { sumEvents } from "../../../src/domain/ingest/totals.ts";
import { JsonStructure } from "../../../src/http/body/structure.ts";
import { Failure } from "../../../src/kernel/errors.ts";
import { propertyRuns } from "../../../harness/rounds.ts";

const NOON = Date.UTC(2026, 10, 14, 12);
const MANY = 1_000_000;
const TURN_MS = 4;

/** Undefined where the body is refused while it arrives, or has no piece. */
async function inPieces(bytes: Buffer, max = MANY, turns = { count: 0 }): Promise<ParsedBatch | undefined> {
  const structure = new JsonStructure({ structure: 300_000, inPieces: true });
  const { cuts } = structure.add(bytes) ? structure : {};
  const runPiece = async <T>(work: (ms: number) => T): Promise<T> => {
    turns.count++;
    return work(TURN_MS);
  };
  return cuts && parseInPieces(bytes, { cuts, runPiece }, max);
}

const problemOf = ({ requireClean }: ParsedBatch): unknown => {
  try {
    return requireClean();
  } catch (error) {
    return (error as Failure).extra.details;
  }
};

const eventsOf = (parsed: ParsedBatch | undefined): unknown[] =>
  (parsed?.value as { events?: unknown[] } | undefined)?.events ?? [];

/** As a boolean: the difference of large values takes seconds to print. */
const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** JSON with spaces around its structural characters. */
const spaced = (value: unknown, space: string): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const isArray = Array.isArray(value);
  const items = Object.entries(value).map(([name, item]) => {
    const text = spaced(item, space);
    return isArray ? text : `${JSON.stringify(name)}${space}:${space}${text}`;
  });
  return `${isArray ? "[" : "{"}${space}${items.join(`${space},${space}`)}${space}${isArray ? "]" : "}"}`;
};

const texts = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 8 }),
  fc.constantFrom("\0", "\ud800", "],[", '"events":[', "\\", "é", "__proto__", "events", "\u2028"),
);
/** JSON.parse of V8 13.6 may read a name that begins with an escape as a name that is a backslash. */
const names = texts.filter((name) => !name.includes("\\"));
const items = fc.array(fc.oneof(fc.array(texts), fc.dictionary(names, texts), fc.double()), {
  minLength: 1,
  maxLength: 20,
});
const outside = fc.dictionary(
  names.filter((name) => name !== "events"),
  fc.oneof(texts, fc.array(fc.nat(), { maxLength: 3 })),
);
const spaces = fc.constantFrom("", " ", "\n\t\r");
const batches = fc.tuple(outside, items, outside).map(([before, some, after]) => {
  const rounds = Math.ceil(6_000 / JSON.stringify(some).length) + 1;
  const events = Array.from({ length: rounds }, () => some).flat();
  return { ...before, events: [...events, ...Array.from({ length: 3_000 }, () => 1)], ...after };
});

/** With 0 all pieces are parsed in one turn. */
const setClock = (msPerLook: number): void => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => (now += msPerLook));
};
beforeEach(() => setClock(0));
afterEach(() => vi.restoreAllMocks());

describe("a batch in pieces", () => {
  it("has the value and the unclean texts that it has at once", async () => {
    await fc.assert(
      fc.asyncProperty(batches, spaces, async (value, space) => {
        const bytes = Buffer.from(spaced(value, space));
        const [pieces, whole] = [await inPieces(bytes), parseBatch(bytes)];
        expect(isSame(pieces?.value, whole.value)).toBe(true);
        expect(pieces && problemOf(pieces)).toEqual(problemOf(whole));
      }),
      { numRuns: 50 },
    );
  });

  it("is invalid where it is invalid at once", async () => {
    const damages = fc.tuple(fc.nat(), fc.constantFrom("", ",", "]", "}", "[", "{", '"', ":", "\\", " ", "1"));
    await fc.assert(
      fc.asyncProperty(batches, damages, async (value, [at, text]) => {
        const json = JSON.stringify(value);
        const place = at % json.length;
        const bytes = Buffer.from(json.slice(0, place) + text + json.slice(place + 1));
        const pieces = await inPieces(bytes).catch((error: unknown) => error);
        if (pieces === undefined || pieces instanceof Failure) return;
        expect(isSame((pieces as ParsedBatch).value, parseBatch(bytes).value)).toBe(true);
      }),
      { numRuns: 100 },
    );
  });

  const many = Array.from({ length: 3_000 }, (_, i) => `{"n":${i}}`).join();

  it.each([
    ["has no event behind its last comma", `{"events":[${many},]}`],
    ["has no event between two commas", `{"events":[${many},,${many}]}`],
    ["has a bracket of the other kind", `{"events":[${many}}}`],
    ["does not end", `{"events":[${many},`],
    ["is not UTF-8", Buffer.from(`{"events":[${many},"\xff"]}`, "latin1")],
  ])("is invalid where it %s", async (_, body) => {
    expect((await inPieces(Buffer.from(body as string)))?.value).toBeUndefined();
  });

  it.each([
    ["the array of another field", `{"more":[${many}],"events":[]}`],
    ["repeated with another value", `{"events":[${many}],"events":[]}`],
    ["in a list", `[[${many}]]`],
    ["the array of a field whose name ends alike", String.raw`{"a\"events":[${many}]}`],
  ])("is parsed at once, or refused if it is large, where the long array is %s", async (_, body) => {
    const small = Buffer.from(body);
    expect(isSame((await inPieces(small))?.value, parseBatch(small).value)).toBe(true);
    const large = Buffer.from(body.padEnd(64 * 1024 + 1));
    await expect(inPieces(large)).rejects.toMatchObject({ failure: "body_too_complex" });
  });

  it("takes a turn for each piece that takes long, and then keeps only the fields that are used", async () => {
    setClock(3);
    const events = Array.from({ length: 500 }, (_, i) => ({ ts: "x", status: i, novel: { a: 1 }, tags: { a: "b" } }));
    const turns = { count: 0 };
    const parsed = await inPieces(Buffer.from(JSON.stringify({ events })), MANY, turns);
    expect(turns.count).toBeGreaterThan(3);
    const kept = eventsOf(parsed) as object[];
    expect(kept.map(usedFields)).toEqual(events.map(usedFields));
    expect(kept[0]).not.toHaveProperty("novel");
  });

  it("has only the number of its events where there are too many", async () => {
    const parsed = await inPieces(Buffer.from(`{"events":[${many}]}`), 2_999);
    const events = eventsOf(parsed);
    expect([events.length, Object.keys(events)]).toEqual([3_000, []]);
  });
});

describe("the used fields of an event", () => {
  const known = { keys: new Map(), projects: new Set<string>(), tenants: new Set<string>(), interned: new Map() };
  const valid = {
    ts: new Date(NOON).toISOString(),
    project_id: "00000000-0000-7000-8000-000000000000",
    env: "live",
    method: "GET",
    path: "/",
    route: null,
    status: 200,
    duration_ms: 1,
    degraded: false,
    request_id: "r",
  };
  const { shape } = (ingestBatch.body as unknown as z.ZodObject<{ events: z.ZodArray<z.ZodObject> }>).shape.events
    .element;

  it("are those of the schema", () => {
    expect(Object.keys(usedFields({}) as object).toSorted()).toEqual(Object.keys(shape).toSorted());
  });

  it("have the problems and the sums of the whole event", () => {
    const values = fc.oneof(texts, fc.jsonValue({ maxDepth: 2 }), fc.dictionary(texts, texts));
    const changes = fc.dictionary(fc.constantFrom(...Object.keys(shape), "novel"), values, { maxKeys: 2 });
    const sums = (events: unknown[]): unknown => {
      const checked = checkEvents(events, known);
      if (checked.problems.length > 0) return checked.problems;
      const batch = { node_id: "n", events, sample_rate: 1, events_dropped: 0, key_first_daily: false } as EventBatch;
      const { journal: _, ...totals } = sumEvents("w", batch, checked, {
        now: NOON,
        series: true,
        lastUsedDetail: true,
      });
      return totals;
    };
    fc.assert(
      fc.property(fc.oneof(changes, fc.jsonValue()), (change) => {
        const isChange = typeof change === "object" && change !== null && !Array.isArray(change);
        const event = isChange ? { ...valid, ...change } : change;
        expect(sums([usedFields(event)])).toEqual(sums([event]));
      }),
      { numRuns: propertyRuns(300) },
    );
  });
});
