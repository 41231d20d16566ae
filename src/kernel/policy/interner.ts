// Interns values that many rows share: each is stored once under a small number from 1 up, with a reference count. A
// value without references frees its number, so frequent changes of scopes do not grow the table.

export class Interner<Value> {
  readonly #make: (key: string) => Value;
  readonly #ids = new Map<string, number>();
  readonly #keys: (string | undefined)[] = [undefined];
  readonly #values: (Value | undefined)[] = [undefined];
  readonly #uses: number[] = [0];
  readonly #free: number[] = [];

  /** `make` creates the value of a key; it runs once for each distinct key in use. */
  constructor(make: (key: string) => Value) {
    this.#make = make;
  }

  /** Adds a reference to `key`. */
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

  /** Adds a reference to a number that is in use. */
  retain(id: number): void {
    this.#uses[id] = (this.#uses[id] ?? 0) + 1;
  }

  /** Removes a reference. */
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

  /** Every key in use with its number, for the cache file. */
  entries(): [number, string][] {
    return Array.from(this.#ids, ([key, id]) => [id, key]);
  }
}
