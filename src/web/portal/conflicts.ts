// Conflicts in the portal's language. The API names them by their message alone.
import type { Strings } from "./messages.ts";

const KNOWN: Readonly<Record<string, keyof Strings>> = {
  "This tenant has reached its limit of active keys.": "errKeysMax",
  "This tenant's plan allows no more active keys.": "errKeysMax",
  "This tenant is suspended.": "suspendedText",
  "A revoked key cannot be rotated.": "errRevoked",
  "A disabled key cannot be rotated.": "errDisabled",
  "An expired key cannot be rotated. Create a new key instead.": "errExpired",
  "This key already has an unexpired successor.": "errSuccessor",
};

/** What a newer server adds has no text of its own. */
export const conflictText = (message: string): keyof Strings => KNOWN[message] ?? "errConflict";
