// Hand-written validators in front of zod schemas. A fast path accepts the usual spelling of a valid value and leaves
// everything else to the schema, which also names what is wrong. bench: ratelimit/check, vendor/mint
import type { z } from "zod";
import type { Schema } from "../endpoint.ts";

type Parse = (value: unknown) => unknown;

const fastPaths = new WeakMap<Schema, Parse>();

/**
 * Gives a schema a fast path: returns what the schema would return, or undefined to leave the value to the schema.
 * Caution: it is given the result of JSON.parse before the strict checks of JSON, so it must reject unknown fields and
 * bound every text and number.
 */
export function withFastPath<S extends Schema>(schema: S, parse: (value: unknown) => z.output<S> | undefined): S {
  fastPaths.set(schema, parse);
  return schema;
}

export function tryFastPath(schema: Schema, value: unknown): unknown {
  return fastPaths.get(schema)?.(value);
}

/** Whether these are all the fields. JSON has no undefined, and JSON.parse makes `__proto__` an ordinary field. */
export function hasOnly(value: Record<string, unknown>, ...fields: unknown[]): boolean {
  let unmatched = 0;
  for (const field of fields) if (field !== undefined) unmatched++;
  for (const _name in value) unmatched--;
  return unmatched === 0;
}

const PLAIN_TEXT = /^[\x20-\x7e]+$/;

/** Printable ASCII: one code unit per character, and nothing that strict JSON rejects. */
export function isPlainText(value: unknown, max: number): value is string {
  return typeof value === "string" && value.length <= max && PLAIN_TEXT.test(value);
}
