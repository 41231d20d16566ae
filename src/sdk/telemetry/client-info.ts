// What a key's last use shows of the client: its network, cut before it leaves the process, and the product name of its
// user agent. Few events carry them: a key's first of each minute, and those that differ from the one before.

import { MINUTE_MS } from "../../kernel/durations.ts";
import { clientNetworkOf, productOf } from "../../kernel/network/client-network.ts";

export type RequestClient = { readonly address: string | null; readonly userAgent: string | null | undefined };
/** The fields of an event. */
type ClientFields = { network: string | null; user_agent?: string };

const AGAIN_MS = MINUTE_MS;
const KEYS_MAX = 10_000;

export class ClientInfo {
  readonly #sent = new Map<string, string>();
  #since = 0;

  /** `elapsed`: monotonic milliseconds. Null if there is nothing new. */
  fieldsOf(keyId: string, { address, userAgent }: RequestClient, elapsed: number): ClientFields | null {
    // Cleared at the bound: some keys then send their fields twice in a minute, which is never wrong.
    if (elapsed - this.#since >= AGAIN_MS || this.#sent.size >= KEYS_MAX) {
      this.#sent.clear();
      this.#since = elapsed;
    }
    const network = clientNetworkOf(address);
    const product = productOf(userAgent);
    if (network === null && product === null) return null;
    const fields = { network, ...(product !== null && { user_agent: product }) };
    const text = JSON.stringify(fields);
    if (this.#sent.get(keyId) === text) return null;
    this.#sent.set(keyId, text);
    return fields;
  }
}
