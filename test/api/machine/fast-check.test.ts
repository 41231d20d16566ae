// The fast parser accepts nothing that the schema would reject, and returns what the schema returns.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fastParseCheck } from "../../../src/api/machine/fast-check.ts";
import { ratelimitCheck } from "../../../src/api/machine/ratelimit.ts";
import { propertyRuns } from "../../../harness/rounds.ts";

const ID = "01890a5d-ac96-774b-bcce-b302099a8057";
const rule = { id: "per-minute", limit: 3, window_ms: 60_000, algorithm: "sliding", scope: "key" };
const body = { project_id: ID, env: "live", key_id: ID, tenant_id: ID, limits: [rule], cost: 1 };

/** Valid values, values at and past each bound, and values of other types. */
const texts = ["", "x", ID, ID.toUpperCase(), `${ID} `, "00000000-0000-0000-0000-000000000000", "live", "test", "prod"];
const names = ["a", "-a", "a b", "a\u0000", "a".repeat(64), "a".repeat(65), "sliding", "fixed", "key", "tenant"];
const numbers = [
  -1,
  -0,
  0,
  1,
  1.5,
  8,
  999,
  1_000,
  1_001,
  2_678_400_000,
  2_678_400_001,
  1e9,
  1e9 + 1,
  2 ** 53,
  Number.NaN,
];
const strange = fc.constantFrom<unknown>(...texts, ...names, ...numbers, undefined, null, true, [], {});
const maybe = (right: unknown) =>
  fc.oneof({ weight: 8, arbitrary: fc.constant(right) }, { arbitrary: strange, weight: 1 });
const fields = (right: object) =>
  fc.record(
    Object.fromEntries(Object.entries({ ...right, more: undefined }).map(([name, value]) => [name, maybe(value)])),
    { requiredKeys: Object.keys(right).slice(0, 2) },
  );
const rules = fc
  .array(fields(rule), { maxLength: 9 })
  .map((all) => all.map((one, i) => ({ ...one, ...(i > 0 && one.id === rule.id && i !== 3 && { id: `rule-${i}` }) })));
const asked = fc
  .tuple(fields(body), rules, fc.boolean())
  // Through JSON: every body arrives as text.
  .map(([one, limits, several]) => JSON.parse(JSON.stringify(several ? { ...one, limits } : one)) as unknown);

describe("the fast parser of a check's body", () => {
  it("returns what the schema returns, or leaves the body to it", () => {
    const schema = ratelimitCheck.body;
    let admitted = 0;
    fc.assert(
      fc.property(asked, (value) => {
        const plain = fastParseCheck(value);
        if (plain === undefined) return;
        admitted++;
        expect(schema?.parse(value)).toEqual(plain);
      }),
      { numRuns: propertyRuns(5_000), seed: 1 },
    );
    expect(admitted).toBeGreaterThan(propertyRuns(500));
  });

  it("handles the bodies that callers usually send", () => {
    const withoutQuotas = { quotas: false, owed: 0, owed_id: null };
    expect(fastParseCheck(body)).toEqual({ ...body, ...withoutQuotas });
    const { key_id: _key, tenant_id: _tenant, cost: _cost, ...short } = body;
    expect(fastParseCheck(short)).toEqual({ ...short, key_id: null, tenant_id: null, cost: 1, ...withoutQuotas });
  });

  it.each([
    ["a field it does not know", { ...body, more: 1 }],
    ["a prototype by name", JSON.parse(`{"__proto__":{"cost":1},${JSON.stringify(body).slice(1)}`)],
    ["a field of a rule it does not know", { ...body, limits: [{ ...rule, more: 1 }] }],
    ["two rules of one name", { ...body, limits: [rule, { ...rule, limit: 4 }] }],
    ["no rule", { ...body, limits: [] }],
    ["a list", [body]],
    ["nothing", null],
  ])("leaves %s to the schema", (_what, value) => {
    expect(fastParseCheck(value)).toBeUndefined();
  });
});
