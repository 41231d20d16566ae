// Why an addon could not be loaded, in words that lead to the fix.
import { expect, it } from "vitest";
import { reasonOf } from "../../src/platform/native-addons.ts";

const error = (code: string, message: string): NodeJS.ErrnoException => Object.assign(new Error(message), { code });

it.each([
  [
    "an old C library",
    error("ERR_DLOPEN_FAILED", "/lib/libc.so.6: version `GLIBC_2.34' not found (required by a.node)"),
    "this system has no GLIBC_2.34: its C library is too old",
  ],
  ["noexec", error("ERR_DLOPEN_FAILED", "a.node: failed to map segment from shared object"), "mounted noexec"],
  ["another addon", error("ERR_DLOPEN_FAILED", "a.node: invalid ELF header"), "the addon does not load from there"],
  ["a read-only folder", error("EROFS", "EROFS: read-only file system"), "read-only"],
  ["a folder of another user", error("EACCES", "EACCES: permission denied"), "no permission"],
])("names %s", (_what, thrown, reason) => {
  expect(reasonOf(thrown)).toBe(reason);
});
