// The fast parser of a new key's body accepts nothing that the strict path would reject, and returns the same value.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { soundJson } from "../../../src/http/body/json.ts";
import { keysCreate } from "../../../src/api/vendor/keys.ts";
import { fastParseNewKey } from "../../../src/api/vendor/fast-new-key.ts";
import { propertyRuns } from "../../../harness/rounds.ts";

const ID = "01890a5d-ac96-774b-bcce-b302099a8057";
const meta = { plan: "pro", seats: 3, trial: false, until: null };
const body = { project_id: ID, tenant_id: ID, env: "live", name: "CI", scopes: ["orders:read"], meta };

const texts = ["", " ", "x", ID, ID.toUpperCase(), "live", "prod", "é", "\u0000", "\ud800", "a".repeat(200)];
const more = ["a".repeat(201), "__proto__", "constructor", -0, 1.5, 2 ** 53, 1e308, undefined, null, true, [], {}];
const strange = fc.constantFrom<unknown>(...texts, ...more, ["", "a"], ["\u0000"], Array(65).fill("a"), {
  a: { b: 1 },
});
const maybe = (right: unknown) =>
  fc.oneof({ weight: 8, arbitrary: fc.constant(right) }, { arbitrary: strange, weight: 1 });
const metas = fc.dictionary(
  fc.constantFrom("plan", "seats", "", "é", "\u0000", "__proto__", "a".repeat(200), "a".repeat(201)),
  fc.oneof(strange, fc.constantFrom("pro", 1)),
  { maxKeys: 3 },
);
const asked = fc
  .record(
    Object.fromEntries(Object.entries({ ...body, more: undefined }).map(([name, value]) => [name, maybe(value)])),
    { requiredKeys: ["project_id", "tenant_id", "env"] },
  )
  .chain((one) =>
    fc.oneof(
      fc.constant(one),
      metas.map((drawn) => ({ ...one, meta: drawn })),
    ),
  )
  .map((one) => JSON.stringify(one));

describe("the fast parser of a new key's body", () => {
  it("returns what the strict path returns, or leaves the body to it", () => {
    let admitted = 0;
    fc.assert(
      fc.property(asked, (text) => {
        const plain = fastParseNewKey(JSON.parse(text));
        if (plain === undefined) return;
        admitted++;
        const strict = keysCreate.body?.parse(soundJson(text, JSON.parse(text)));
        expect(JSON.stringify(strict)).toBe(JSON.stringify(plain));
      }),
      { numRuns: propertyRuns(5_000), seed: 1 },
    );
    expect(admitted).toBeGreaterThan(propertyRuns(500));
  });

  it("handles the bodies that callers usually send", () => {
    expect(fastParseNewKey(body)).toEqual(body);
    expect(fastParseNewKey({ project_id: ID, tenant_id: ID, env: "test" })).toEqual({
      project_id: ID,
      tenant_id: ID,
      env: "test",
    });
  });

  it.each([
    ["a field it does not know", { ...body, more: 1 }],
    ["a prototype by name", JSON.parse(`{"__proto__":{"name":"x"},${JSON.stringify(body).slice(1)}`)],
    ["a prototype in meta", { ...body, meta: JSON.parse('{"__proto__":1}') }],
    ["meta with depth", { ...body, meta: { a: { b: 1 } } }],
    ["meta with many keys", { ...body, meta: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`k${i}`, 1])) }],
    ["a number that would not survive", { ...body, meta: { a: 2 ** 53 } }],
    ["text beyond ASCII", { ...body, name: "Zoë" }],
    ["an expiry", { ...body, expires_at: "2030-01-01T00:00:00Z" }],
    ["rules", { ...body, rate_limits: null }],
    ["a list", [body]],
    ["nothing", null],
  ])("leaves %s to the schema", (_what, value) => {
    expect(fastParseNewKey(value)).toBeUndefined();
  });
});
