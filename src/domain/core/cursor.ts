// The cursor of a list: base64url of the encrypted JSON of a position. It needs no state on the server. Encrypted,
// because a page may end at a record that the caller does not see, as of another project. Its key depends on the
// workspace, the list and its filters, so a cursor of another list is refused.
import { createHmac } from "node:crypto";
import { failField, type FailureName } from "../../kernel/errors.ts";
import { decrypt, deriveKey, encrypt } from "../vault/aead.ts";
import type { Vendor } from "./actor.ts";
import type { Ctx } from "./context.ts";

export type Position = readonly (string | number)[];
type Filters = Readonly<Record<string, string | number | boolean | null | undefined>>;

export class ListCursor {
  readonly #key: () => Uint8Array;

  /** `filters`: every parameter of the request but `limit` and `cursor`. */
  constructor({ services, actor }: Ctx<Vendor>, list: string, filters: Filters) {
    const given = Object.entries(filters).filter(([, value]) => value !== undefined);
    const binding = JSON.stringify([actor.workspace_id, list, given.toSorted(([a], [b]) => (a < b ? -1 : 1))]);
    this.#key = () => deriveKey(services.vault.derive("list cursors"), binding, "keyrack list cursor");
  }

  write(position: Position): string {
    return encrypt(this.#key(), Buffer.from(JSON.stringify(position))).toString("base64url");
  }

  /** 32 bits that only this server can compute for this list and its filters, as hex. */
  tag(text: string): string {
    return createHmac("sha256", this.#key()).update(text).digest("hex").slice(0, 8);
  }

  /** `shape`: the types of the position's values. `failure`: for a cursor that is not in the query. */
  read(cursor: string, shape: readonly ("string" | "number")[], failure: FailureName = "invalid_query"): Position {
    const position = this.#decrypt(cursor);
    if (position?.length !== shape.length || !shape.every((type, i) => typeof position[i] === type))
      throw failField(failure, "cursor", "must be the next_cursor of this list with the same parameters");
    return position;
  }

  #decrypt(cursor: string): Position | null {
    try {
      return JSON.parse(decrypt(this.#key(), Buffer.from(cursor, "base64url")).toString()) as Position;
    } catch {
      return null;
    }
  }
}
