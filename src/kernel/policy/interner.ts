// Values that many rows share, kept once and named by a small number from 1 up. They are counted: a value that no row
// uses any more gives its number back, so a vendor who changes scopes daily does not grow for ever.

export class Interner<Value> {
  readonly #make: (key: string) => Value;
  readonly #ids = new Map<string, number>();
  readonly #keys: (string | undefined)[] = [undefined];
  readonly #values: (Value | undefined)[] = [undefined];
  readonly #uses: number[] = [0];
  readonly #free: number[] = [];

  /** `make` turns a key into its value; it runs once for each distinct key in use. */
  constructor(make: (key: string) => Value) {
    this.#make = make;
  }

  /** One more row uses `key`. */
  acquire(key: string): number {
    const known = this.#ids.get(key);
    if (known !== undefined) {
      this.#uses[known] = (this.#uses[known] ?? 0) + 1;
      return known;
    }
    const id = this.#free.pop() ?? this.#values.length;
    this.#values[id] = this.#make(key);
    this.#keys[id] = key;
    this.#uses[id] = 1;
    this.#ids.set(key, id);
    return id;
  }

  /** One more row uses a number that is already known to be in use. */
  retain(id: number): void {
    this.#uses[id] = (this.#uses[id] ?? 0) + 1;
  }

  /** One row less uses it. */
  release(id: number): void {
    const uses = (this.#uses[id] ?? 0) - 1;
    this.#uses[id] = uses;
    if (uses > 0) return;
    this.#ids.delete(this.#keys[id] ?? "");
    this.#keys[id] = undefined;
    this.#values[id] = undefined;
    this.#free.push(id);
  }

  value(id: number): Value {
    return this.#values[id] as Value;
  }

  get size(): number {
    return this.#ids.size;
  }

  /** Every key in use with its number, for writing a policy to a file. */
  entries(): [number, string][] {
    return Array.from(this.#ids, ([key, id]) => [id, key]);
  }
}
