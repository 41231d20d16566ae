// The route table of the fast lane. h3 serves everything it does not match: other methods, other spellings, unknown
// paths. bench: lanes/check, lanes/get-by-id
import type { Endpoint } from "../endpoint.ts";
import type { Params } from "../request.ts";

/** `fixed` has null in the place of a parameter. */
type Route<T> = { target: T; fixed: readonly (string | null)[]; names: readonly string[] };

type Found<T> = { readonly target: T; readonly params: Params };

const NO_PARAMS: Params = Object.freeze({});

export class Routes<T> {
  /** By method, then by path: two lookups are cheaper than building one key. */
  readonly #exact = new Map<string, Map<string, Found<T>>>();
  readonly #shaped = new Map<string, Route<T>[]>();
  readonly #declared: ReadonlySet<string>;

  /** `declared`: the paths of all endpoints, so that a parameter never matches what is a path of its own. */
  constructor(declared: readonly string[]) {
    this.#declared = new Set(declared);
  }

  add({ method, path }: Pick<Endpoint, "method" | "path">, target: T): void {
    if (!path.includes("{")) {
      const paths = this.#exact.get(method) ?? new Map<string, Found<T>>();
      this.#exact.set(method, paths.set(path, { target, params: NO_PARAMS }));
      return;
    }
    const parts = path.split("/");
    const fixed = parts.map((part) => (part.startsWith("{") ? null : part));
    const names = parts.map((part) => part.slice(1, -1));
    const shape = `${method} ${parts.length}`;
    this.#shaped.set(shape, [...(this.#shaped.get(shape) ?? []), { target, fixed, names }]);
  }

  /** Matches the one spelling of a route; a parameter must be of characters that h3's URL would leave as they are. */
  find(method: string, path: string): Found<T> | undefined {
    const exact = this.#exact.get(method)?.get(path);
    if (exact) return exact;
    if (this.#declared.has(path)) return undefined;
    const parts = path.split("/");
    for (const { target, fixed, names } of this.#shaped.get(`${method} ${parts.length}`) ?? []) {
      const params = paramsOf(parts, fixed, names);
      if (params) return { target, params };
    }
    return undefined;
  }
}

function paramsOf(parts: string[], fixed: Route<unknown>["fixed"], names: readonly string[]): Params | undefined {
  for (let i = 0; i < parts.length; i++) {
    const want = fixed[i];
    if (want === null ? !isPlainSegment(parts[i] as string) : parts[i] !== want) return undefined;
  }
  const params: Record<string, string> = {};
  for (let i = 0; i < parts.length; i++) if (fixed[i] === null) params[names[i] as string] = parts[i] as string;
  return params;
}

function isPlainSegment(text: string): boolean {
  return /^[\w~.-]+$/.test(text) && text !== "." && text !== "..";
}
