// Preloaded into a server under measurement (node --import): replaces a fast path by its slower equivalent in the
// source as it is loaded. The product itself carries no switches.
import { registerHooks } from "node:module";

/** @type {{ file: string, find: string | null, put: string }[]} */
const edits = JSON.parse(process.env.KEYRACK_BENCH_EDITS ?? "[]");

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    let source = null;
    for (const { file, find, put } of edits) {
      if (!url.endsWith(`/${file}`)) continue;
      source ??=
        typeof loaded.source === "string" ? loaded.source : new TextDecoder().decode(loaded.source ?? undefined);
      if (find !== null && !source.includes(find)) throw new Error(`${file} does not contain: ${find}`);
      source = find === null ? put : source.replaceAll(find, put);
    }
    return source === null ? loaded : { ...loaded, source };
  },
});
