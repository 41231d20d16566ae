// The scripts of the binary and of the pages are bundled in ASCII.
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { toAscii } from "../../tools/ascii.ts";

it("a script in ASCII does the same as before", () => {
  const script = '[/^[+＋—-]$/.test("＋"), /^[😀é]$/u.test("😀"), "“" + `…`].join()';
  const ascii = toAscii(script);
  expect([...ascii].every((character) => character < "\x80")).toBe(true);
  expect(runInNewContext(ascii)).toBe("true,true,“…");
});
