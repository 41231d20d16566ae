// Entry point of a checkout. Enables Node's compile cache, so that files are type-stripped and compiled only once.
// Plain JavaScript, so that this file itself needs no type stripping. The binary has its own code cache instead.
import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";

// In node_modules: a process that can write there can change the program anyway. If it is not writable, Node runs
// without.
enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/keyrack", import.meta.url)));
await import("../src/cli/main.ts");
