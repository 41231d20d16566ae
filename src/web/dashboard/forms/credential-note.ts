// Whether a text that someone typed or pasted is a credential, and which. Such a text must not become part of an
// address.
import { guessCredentialKind, parseCredential, type CredentialKind } from "../../../kernel/credentials.ts";
import { roleReason } from "../components/button.tsx";

const CREDENTIAL_CHARS_MIN = 20;
/** Most of a key whose prefix a project has chosen. */
const CHOSEN_PREFIX = /^[a-z][a-z0-9]{1,8}_(live|test)_[\w-]{7}/;

const KINDS: Partial<Record<CredentialKind, string>> = {
  api_key: "an API key",
  secret_key: "a secret key",
  session: "a session token",
  bootstrap: "the bootstrap token",
  setup: "a setup token",
};

const looksSecret = (text: string): boolean =>
  CHOSEN_PREFIX.test(text) || (text.length >= CREDENTIAL_CHARS_MIN && guessCredentialKind(text) !== null);

/** The credential in a text, also one within a header or an assignment: "Bearer …", "API_KEY=…". */
const credentialIn = (text: string): string | null => text.split(/[^\w-]+/).find(looksSecret) ?? null;

/** The API key in a text, if the person may look it up. */
export function keyToLookUp(text: string): string | null {
  const found = credentialIn(text);
  const isKey = found !== null && parseCredential(found)?.kind === "api_key";
  return isKey && roleReason("admin") === null ? found : null;
}

/** What a pasted credential is; null for other texts. */
export function credentialNote(text: string): string | null {
  const found = credentialIn(text);
  if (found === null) return null;
  const parsed = parseCredential(found);
  if (!parsed) return "This key is mistyped: its checksum is wrong.";
  const name = KINDS[parsed.kind] ?? "a one-time token";
  const next = parsed.kind === "api_key" ? " Search for its start instead." : "";
  return `This is ${name} (${parsed.displayPrefix}…). It was not sent anywhere.${next}`;
}
