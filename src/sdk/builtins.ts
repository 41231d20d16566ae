// Node's built-in modules, if there are any. No public type names this file: applications without @types/node compile
// against the library too.

type Builtins = {
  "node:crypto": typeof import("node:crypto");
  "node:fs/promises": typeof import("node:fs/promises");
  "node:os": typeof import("node:os");
  "node:path": typeof import("node:path");
};

/** A built-in module of Node, or undefined on other runtimes and on Node before 20.16. */
export function builtinModule<Name extends keyof Builtins>(name: Name): Builtins[Name] | undefined {
  const node = (globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } }).process;
  try {
    return node?.getBuiltinModule?.(name) as Builtins[Name] | undefined;
  } catch {
    return undefined;
  }
}
