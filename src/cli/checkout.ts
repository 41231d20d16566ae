// How a checkout starts (the binary has its code compiled in): what was compiled once is kept beside the packages, or
// every command would strip types and compile again, which costs more than most commands do.
import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";

enableCompileCache(fileURLToPath(new URL("../../node_modules/.cache/keyrack", import.meta.url)));
await import("./main.ts");
