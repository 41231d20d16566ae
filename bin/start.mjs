// Where a checkout starts. Node strips the types of every file and compiles it on every start; kept, both are done once.
// Plain JavaScript, or this file alone would load what strips types. The binary has its own code cache instead.
import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";

// Among the packages: whoever may write there could change the program anyway. Where that cannot be, Node goes on without.
enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/keyrack", import.meta.url)));
await import("../src/cli/main.ts");
