// A body is measured while it arrives: one that would block the event loop when parsed is refused before it is
// complete.
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { endpoints } from "../../src/api/index.ts";
import { Meta } from "../../src/api/schemas.ts";
import { PIECE_MAX, PIECE_MIN } from "../../src/http/body/array-cutter.ts";
import { JsonStructure } from "../../src/http/body/structure.ts";
import { codeOf, sendRaw } from "../../harness/processes/raw-http.ts";
import { sharedInstance, type Workspace } from "../../harness/instances/test-instance.ts";
import { z } from "zod";

const MANY = 1e9;
const fits = (max: number, ...parts: (string | Buffer)[]): boolean => {
  const structure = new JsonStructure({ structure: max });
  return parts.every((part) => structure.add(Buffer.from(part)));
};

/** Brackets, commas and colons of a value's JSON, counted on the value. */
function countOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const items = Object.values(value);
  const separators = Math.max(0, items.length - 1) + (Array.isArray(value) ? 0 : items.length);
  return items.reduce<number>((sum, item) => sum + countOf(item), 2 + separators);
}

describe("the structure of JSON", () => {
  it("is counted exactly, whatever its strings hold and wherever it is cut", () => {
    const values = fc.jsonValue({ maxDepth: 4 });
    fc.assert(
      fc.property(values, fc.array(fc.nat(200), { maxLength: 5 }), (value, cuts) => {
        const bytes = Buffer.from(JSON.stringify(value));
        const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
        const parts = places.slice(1).map((end, i) => bytes.subarray(places[i], end));
        const count = countOf(value);
        expect(fits(count, ...parts)).toBe(true);
        if (count > 0) expect(fits(count - 1, ...parts)).toBe(false);
      }),
      { numRuns: 50 },
    );
  });

  it("may be 32 levels deep", () => {
    const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
    expect(fits(MANY, nested(32), nested(32))).toBe(true);
    expect(fits(MANY, nested(33))).toBe(false);
    expect(fits(MANY, `{"a":${nested(32)}}`)).toBe(false);
  });

  it("does not include strings, with escapes cut in two as well", () => {
    expect(fits(0, '"a\\', '"[', '\\\\\\"{,:', '"')).toBe(true);
    expect(fits(0, '"a\\\\', '"', "[")).toBe(false);
  });

  it("is counted behind a string that is cut after any number of bytes", () => {
    for (let bytes = 0; bytes < 10; bytes++) {
      expect(fits(0, `"${"x".repeat(bytes)}`, '"', "[")).toBe(false);
      expect(fits(0, `"${"x".repeat(bytes)}`, "[", '"')).toBe(true);
    }
  });
});

describe("an array that is parsed in pieces", () => {
  const cutsOf = (text: string, max = MANY) => {
    const structure = new JsonStructure({ structure: max, inPieces: true });
    const bytes = Buffer.from(text);
    const fits = [bytes.subarray(0, 99), bytes.subarray(99)].every((part) => structure.add(part));
    return fits ? structure.cuts : "refused";
  };
  const event = (names: number): string => `{${Array.from({ length: names }, (_, i) => `"n${i}":"[,]"`).join()}}`;
  const batch = (events: string, more = ""): string =>
    `{"short":[1,2],"sdk":{"a":1,"b":2}${more},"events":[${events}]}`;
  const repeated = (count: number, names: number): string => Array.from({ length: count }, () => event(names)).join();

  it("is cut between items, each piece within its bounds", () => {
    fc.assert(
      fc.property(fc.integer({ min: 300, max: 900 }), fc.integer({ min: 0, max: 60 }), (count, names) => {
        const text = batch(repeated(count, names));
        const cuts = cutsOf(text);
        expect(cuts).not.toBe("refused");
        if (!cuts || cuts === "refused") return;
        expect(text.slice(0, cuts.start)).toMatch(/"events":$/);
        expect(text.slice(cuts.end)).toBe("]}");
        const bounds = [cuts.start, ...cuts.commas, cuts.end as number];
        const pieces = bounds.slice(1).map((end, i) => text.slice((bounds[i] as number) + 1, end));
        const counts = pieces.map((piece) => countOf(JSON.parse(`[${piece}]`)));
        expect(Math.max(...counts)).toBeLessThan(PIECE_MIN + 2 * names + 10);
        expect(pieces.join() === repeated(count, names)).toBe(true);
      }),
      { numRuns: 20 },
    );
  });

  it("is not cut where the body is short", () => {
    expect(cutsOf(batch(repeated(10, 16)))).toBeUndefined();
  });

  it("may have no item, and the body no other part, that is long", () => {
    const names = PIECE_MAX / 2 + 1;
    const many = repeated(500, 8);
    expect(cutsOf(batch(`${many},${event(names)},${many}`))).toBe("refused");
    expect(cutsOf(batch(many, `,"more":${event(names)}`))).toBe("refused");
    expect(cutsOf(`${batch(many).slice(0, -1)},"more":${event(names)}}`)).toBe("refused");
    const half = `"more":${event(names / 2)}`;
    expect(cutsOf(`${batch(many, `,${half}`).slice(0, -1)},${half}}`)).toBe("refused");
    expect(cutsOf(batch(many, `,${half}`))).toMatchObject({ commas: expect.any(Array) });
  });
});

describe("a hostile body", () => {
  const instance = sharedInstance("sqlite", { flags: { ingest_events_per_minute: "10" } });
  let workspace: Workspace;
  beforeAll(async () => {
    workspace = await instance.workspace();
  });

  const begin = (path: string, length: number, text: string): string =>
    `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${workspace.keys.sk_owner}\r\n` +
    `content-type: application/json\r\ncontent-length: ${length}\r\n\r\n${text}`;

  it.each([
    ["/v1/idempotency/complete", 8 * 1024 * 1024, "[".repeat(33)],
    ["/v1/idempotency/complete", 8 * 1024 * 1024, `{"headers":{${'"a":"",'.repeat(501)}`],
    ["/v1/ingest/batch", 5 * 1024 * 1024, "[".repeat(33)],
    ["/v1/ingest/batch", 5 * 1024 * 1024, "[],".repeat(100_001)],
    ["/v1/ingest/batch", 5 * 1024 * 1024, `{"events":[{${'"a":"",'.repeat(5_001)}`],
    ["/v1/tenants", 200_000, "[],".repeat(6_667)],
  ])("to %s of %i bytes is refused although most of it never arrives", async (path, length, text) => {
    const [response] = await sendRaw(instance.url, begin(path, length, text));
    expect(response && codeOf(response)).toEqual([400, "invalid_request"]);
    expect(response?.head).toMatch(/^connection: close\r$/im);
  });

  it("to ingest costs one event of the budget", async () => {
    const own = await instance.workspace();
    const bearer = own.keys.sk_owner;
    const text = begin("/v1/ingest/batch", 1_000, "[".repeat(33)).replace(workspace.keys.sk_owner, bearer);
    for (let i = 0; i < 10; i++) expect((await sendRaw(instance.url, text))[0]?.status).toBe(400);
    expect((await own.call("sk_owner", "POST /v1/ingest/batch", {})).status).toBe(429);
  });

  it("with a list that is too long is refused for its length, and its entries are not looked at", async () => {
    const scopes = Array.from({ length: 15_000 }, () => 1);
    const reply = await workspace.call("sk_owner", "PATCH /v1/keys/00000000-0000-7000-8000-000000000000", { scopes });
    expect(reply.body.error.details).toEqual([{ path: "scopes", message: "must have at most 64 entries" }]);
  });

  it("with 10,000 names in meta is refused for its number of keys alone", async () => {
    const meta = Object.fromEntries(Array.from({ length: 9_900 }, (_, i) => [`k${i}`, "x".repeat(9)]));
    const reply = await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "wide", meta });
    expect(reply.body.error.details).toEqual([{ path: "meta", message: "must have at most 100 keys in all" }]);
  });
});

it("every list in a body has a maximum, so that one that is too long is refused before its entries are looked at", () => {
  const unbounded: string[] = [];
  for (const { name, body, rawBody } of endpoints) {
    if (rawBody || !(body instanceof z.ZodObject)) continue;
    const fields = z.toJSONSchema(body, { io: "input" }).properties ?? {};
    for (const [field, schema] of Object.entries(fields as Record<string, { type?: string; maxItems?: number }>)) {
      if (schema.type === "array" && schema.maxItems === undefined) unbounded.push(`${name} ${field}`);
    }
  }
  expect(unbounded).toEqual([]);
});

it("the values of meta are not looked at where it has too many keys", () => {
  let looks = 0;
  const meta = {};
  for (let i = 0; i < 101; i++) Object.defineProperty(meta, `k${i}`, { enumerable: true, get: () => ++looks });
  expect(Meta.safeParse(meta).success).toBe(false);
  expect(looks).toBe(0);
});
