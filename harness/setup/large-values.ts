// Runs before each test file. A failed matcher prints its values; for a buffer of 5 MiB that takes 30 s, and as long
// again for every attempt of `expect.poll`. So a failed matcher gets 1 KiB of a longer value, around the first
// difference of two texts, and the name of a file with all of it. `npm run test:times` names every test that gives a
// large value to a matcher, also one that passes.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, chai, expect } from "vitest";
import { root } from "../repository.ts";

declare module "vitest" {
  export interface TaskMeta {
    /** Names of tests that gave a large value to a matcher. */
    largeValues?: string[];
  }
}

/** Recorded, in characters or bytes. */
const LARGE = 16_384;
/** Printed, in characters. */
const SHOWN = 1_024;
/** Of these, how many before the first difference of two texts. */
const BEFORE = 200;
const FILES = "node_modules/.cache/keyrack-test-values";
const LOOKED_AT = 20;
const PATCHED = Symbol.for("keyrack.large-values");

/** The prototype of assertions is shared by the files of a process; so is what its patch writes to. */
const found: Set<string> = ((globalThis as { [PATCHED]?: Set<string> })[PATCHED] ??= new Set());

// oxlint-disable-next-line no-empty-pattern -- vitest demands a pattern for the first argument
afterAll(({}, file) => {
  file.meta.largeValues = [...found];
  found.clear();
});

type Assert = (this: object, isTrue: unknown, ...more: unknown[]) => void;

/** `other` is what the matcher compares it with. */
function shortened(value: unknown, other: unknown, depth = 0): unknown {
  if (typeof value === "string" && value.length > SHOWN) {
    const start = typeof other === "string" ? Math.max(0, firstDifference(value, other) - BEFORE) : 0;
    return part(value, start, `${value.length} characters`, value);
  }
  if (ArrayBuffer.isView(value) && value.byteLength > SHOWN) {
    const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    return part(bytes.toString("hex", 0, SHOWN / 2), 0, `${value.byteLength} bytes`, bytes);
  }
  if (depth > 2 || typeof value !== "object" || value === null) return value;
  const within = (name: string | number): unknown => (Object(other) as Record<string | number, unknown>)[name];
  if (Array.isArray(value)) return value.map((each, i) => shortened(each, within(i), depth + 1));
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, shortened(each, within(name), depth + 1)]),
  );
}

/** Where two texts part; 0 for equal ones. */
function firstDifference(one: string, other: string): number {
  if (one === other) return 0;
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  return at;
}

function part(text: string, start: number, size: string, whole: string | Buffer): string {
  const from = start > 0 ? `from ${start}: …` : "";
  return `${from}${text.slice(start, start + SHOWN)}… (${size}, all of it in ${fileOf(whole)})`;
}

/** Named by its content: every attempt of a poll has the same file. */
function fileOf(whole: string | Buffer): string {
  const name = join(FILES, createHash("sha256").update(whole).digest("hex").slice(0, 16));
  mkdirSync(join(root, FILES), { recursive: true });
  if (!existsSync(join(root, name))) writeFileSync(join(root, name), whole);
  return name;
}

/** Looks into lists and records as `shortened` does, but only at their beginning: it runs for every matcher. */
function isLarge(value: unknown, depth = 0): boolean {
  if (typeof value === "string") return value.length > LARGE;
  if (typeof value !== "object" || value === null) return false;
  if (ArrayBuffer.isView(value)) return value.byteLength > LARGE;
  if (depth > 2 || (!Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype)) return false;
  return Object.values(value)
    .slice(0, LOOKED_AT)
    .some((each) => isLarge(each, depth + 1));
}

chai.use(({ Assertion }, utils) => {
  const prototype = Assertion.prototype as unknown as { assert: Assert; [PATCHED]?: true };
  if (prototype[PATCHED]) return; // by an earlier file of this process
  prototype[PATCHED] = true;
  const original = prototype.assert;
  prototype.assert = function (isTrue, ...more) {
    if (isLarge(utils.flag(this, "object")) || more.slice(2).some((value) => isLarge(value)))
      found.add(expect.getState().currentTestName ?? "a hook");
    if (Boolean(isTrue) === Boolean(utils.flag(this, "negate"))) {
      // Two messages, then the expected and the actual value.
      const [message, negated, expected, ...others] = more;
      const object = utils.flag(this, "object");
      const actual = others.length > 0 ? others[0] : object;
      utils.flag(this, "object", shortened(object, expected));
      const values = [shortened(expected, actual), ...others.map((value) => shortened(value, expected))];
      return original.call(this, isTrue, message, negated, ...(more.length > 2 ? values : []));
    }
    original.call(this, isTrue, ...more);
  };
});
