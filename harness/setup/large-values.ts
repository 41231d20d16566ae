// Runs before each test file. A failed matcher prints its values; for a buffer of 5 MiB that takes 30 s, and as long
// again for every attempt of `expect.poll`. So a failed matcher gets the beginning and the size of a large value.
import { chai } from "vitest";

const LARGE = 16_384;
const SHOWN = 1_024;
const PATCHED = Symbol.for("keyrack.large-values");

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

function beginning(text: string, size: string): string {
  return `${text.slice(0, SHOWN)}… (${size}: compare a length, a hash or a boolean instead)`;
}

chai.use(({ Assertion }, utils) => {
  const prototype = Assertion.prototype as unknown as { assert: Assert; [PATCHED]?: true };
  if (prototype[PATCHED]) return; // by an earlier file of this process
  prototype[PATCHED] = true;
  const original = prototype.assert;
  prototype.assert = function (isTrue, ...more) {
    if (Boolean(isTrue) === Boolean(utils.flag(this, "negate"))) {
      utils.flag(this, "object", shortened(utils.flag(this, "object")));
      // Two messages, then the expected and the actual value.
      return original.call(this, isTrue, ...more.map((value, i) => (i < 2 ? value : shortened(value))));
    }
    original.call(this, isTrue, ...more);
  };
});
