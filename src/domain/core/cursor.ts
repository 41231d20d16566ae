// The cursor of a list: base64url of JSON [binding, position]. It needs no state on the server. The binding is a hash of the
// workspace, the list and its filters, so a cursor of another list is refused; a forged position only moves within the list.
import { failField, type FailureName } from "../../kernel/errors.ts";
import { sha256Hex } from "../../platform/crypto.ts";
import type { Vendor } from "./actor.ts";

export type Position = readonly (string | number)[];
type Filters = Readonly<Record<string, string | number | boolean | null | undefined>>;

const BINDING_CHARS = 16;

export class ListCursor {
  readonly #binding: string;

  /** `filters`: every parameter of the request but `limit` and `cursor`. */
  constructor(actor: Vendor, list: string, filters: Filters) {
    const given = Object.entries(filters).filter(([, value]) => value !== undefined);
    const text = JSON.stringify([actor.workspace_id, list, given.toSorted(([a], [b]) => (a < b ? -1 : 1))]);
    this.#binding = sha256Hex(text).slice(0, BINDING_CHARS);
  }

  write(position: Position): string {
    return Buffer.from(JSON.stringify([this.#binding, ...position])).toString("base64url");
  }

  /** `shape`: the types of the position's values. `failure`: for a cursor that is not in the query. */
  read(cursor: string, shape: readonly ("string" | "number")[], failure: FailureName = "invalid_query"): Position {
    const values = parse(cursor);
    const fits = values.length === shape.length + 1 && shape.every((type, i) => isPart(values[i + 1], type));
    if (!fits || values[0] !== this.#binding)
      throw failField(failure, "cursor", "must be the next_cursor of this list with the same parameters");
    return values.slice(1) as Position;
  }
}

/** What both databases accept as a value. */
function isPart(value: unknown, type: "string" | "number"): boolean {
  return type === "number"
    ? Number.isSafeInteger(value)
    : typeof value === "string" && value.isWellFormed() && !value.includes("\0");
}

function parse(cursor: string): unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}
