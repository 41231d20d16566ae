// A look by hand at what nearly every caller sends, before the schema has its turn: the general validator can cost more
// than the work it guards. What is not withFastPath right is left to the schema, which also says what is wrong with it.
import type { z } from "zod";
import type { Schema } from "../endpoint.ts";

type Look = (value: unknown) => unknown;

const looks = new WeakMap<Schema, Look>();

/**
 * Gives a schema its plain look: what the schema would make of the value, or undefined where the schema must see it. The
 * look is given bare JSON.parse: it must admit no field that it does not know, and no text or number without a bound.
 */
export function withFastPath<S extends Schema>(schema: S, look: (value: unknown) => z.output<S> | undefined): S {
  looks.set(schema, look);
  return schema;
}

export function tryFastPath(schema: Schema, value: unknown): unknown {
  return looks.get(schema)?.(value);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** Whether these are all the fields there are: JSON has no undefined, and JSON.parse makes `__proto__` a field like any. */
export function hasOnly(value: Record<string, unknown>, ...fields: unknown[]): boolean {
  let spare = 0;
  for (const field of fields) if (field !== undefined) spare++;
  for (const _name in value) spare--;
  return spare === 0;
}

const PLAIN_TEXT = /^[\x20-\x7e]+$/;

/** As many characters as code units, and none that the strict reading of JSON refuses. */
export function isPlainText(value: unknown, max: number): value is string {
  return typeof value === "string" && value.length <= max && PLAIN_TEXT.test(value);
}
