// Runs before each test file. A failed matcher prints its values; for a buffer of 5 MiB that takes 30 s, and as long
// again for every attempt of `expect.poll`. So a failed matcher gets the beginning and the size of a large value, and
// `npm run test:times` names every test that gives a large value to a matcher, also one that passes.
import { afterAll, chai, expect } from "vitest";

declare module "vitest" {
  export interface TaskMeta {
    /** Names of tests that gave a large value to a matcher. */
    largeValues?: string[];
  }
}

const LARGE = 16_384;
const SHOWN = 1_024;
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

function shortened(value: unknown, depth = 0): unknown {
  if (typeof value === "string" && value.length > LARGE) return beginning(value, `${value.length} characters`);
  if (ArrayBuffer.isView(value) && value.byteLength > LARGE) {
    const shown = Buffer.from(value.buffer, value.byteOffset, SHOWN / 2);
    return beginning(shown.toString("hex"), `${value.byteLength} bytes`);
  }
  if (depth > 2 || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => shortened(each, depth + 1));
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, shortened(each, depth + 1)]));
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

function beginning(text: string, size: string): string {
  return `${text.slice(0, SHOWN)}… (${size}: compare a length, a hash or a boolean instead)`;
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
      utils.flag(this, "object", shortened(utils.flag(this, "object")));
      // Two messages, then the expected and the actual value.
      return original.call(this, isTrue, ...more.map((value, i) => (i < 2 ? value : shortened(value))));
    }
    original.call(this, isTrue, ...more);
  };
});
