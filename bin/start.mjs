// Entry point of a checkout. Enables Node's compile cache, so that files are type-stripped and compiled only once.
// Plain JavaScript, so that this file itself needs no type stripping. The binary has its own code cache instead.
import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";

// In node_modules: a process that can write there can change the program anyway. If it is not writable, Node runs
// without.
const cache = fileURLToPath(new URL("../node_modules/.cache/keyrack", import.meta.url));
enableCompileCache(cache);
// Worker threads take it from the environment only: without it each needs three times the CPU time to load its sources.
process.env.NODE_COMPILE_CACHE ??= cache;
await import("../src/cli/main.ts");
