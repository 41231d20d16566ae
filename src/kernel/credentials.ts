// The text of every credential, in characters:
//
//   prefix | body: 32 of A-Z a-z 0-9 - _ (24 random bytes, base64url) | crc: 8 of 0-9 a-f
//
// where crc = CRC-32 (crc32.ts) over prefix+body. The prefix of an API key is `<prefix>_live_` or `<prefix>_test_`;
// `kr` is ours, and projects may choose another (key-prefixes.ts). An invitation has `<workspace_id>.` (lower-case UUID
// and a dot) as its prefix, so its crc covers `<workspace_id>.<body>` and it is 77 characters. Only the SHA-256 of the
// whole text is stored. A correct CRC rules out a typing error and proves nothing else: anyone can compute it.

import { toBase64Url } from "./crypto/bytes.ts";
import { crc32Hex } from "./crypto/crc32.ts";
import { parseUuid } from "./ids.ts";
import { OWN_PREFIX } from "./key-prefixes.ts";

export type Env = "live" | "test";
export const ENVS = ["live", "test"] as const;

export type CredentialKind =
  | "api_key"
  | "secret_key"
  | "session"
  | "bootstrap"
  | "email_verification"
  | "password_reset"
  | "setup";

export const PREFIXES = {
  api_key: { live: "kr_live_", test: "kr_test_" },
  secret_key: { live: "krsk_live_", test: "krsk_test_" },
  session: "krses_",
  bootstrap: "krboot_",
  email_verification: "krev_",
  password_reset: "krpr_",
  setup: "krset_",
} as const satisfies Record<CredentialKind, string | Record<Env, string>>;

/**
 * Regex sources for secret scanners, of credentials with our own prefixes. They carry no anchors, and a match still has
 * to pass `parseCredential`.
 */
export const CREDENTIAL_PATTERN = [
  "kr(sk)?_(live|test)_[A-Za-z0-9_-]{32}[0-9a-f]{8}",
  "kr(ses|boot|ev|pr|set)_[A-Za-z0-9_-]{32}[0-9a-f]{8}",
] as const;

export const RANDOM_BYTES = 24;
const BODY_CHARS = 32;
const SECRET_CHARS = BODY_CHARS + 8;
const DISPLAY_CHARS = 6;
const UUID_CHARS = 36;
const SECRET = /^[A-Za-z0-9_-]{32}[0-9a-f]{8}$/;

/** `family` is the prefix up to its first underscore. */
type Form = { kind: CredentialKind; env: Env | null; prefix: string; family: string };

const FORMS: readonly Form[] = (Object.keys(PREFIXES) as CredentialKind[]).flatMap((kind): Form[] => {
  const prefix = PREFIXES[kind];
  const form = (env: Env | null, prefix: string): Form => {
    return { kind, env, prefix, family: prefix.slice(0, prefix.indexOf("_") + 1) };
  };
  return typeof prefix === "string" ? [form(null, prefix)] : ENVS.map((env) => form(env, prefix[env]));
});

/** `env` is null for kinds without an environment. Any other combination is a programming error and throws. */
export function formatCredential(kind: CredentialKind, env: Env | null, random: Uint8Array): string {
  const form = FORMS.find((form) => form.kind === kind && form.env === env);
  if (!form) throw new RangeError(`A ${kind} has no form for env ${env}.`);
  return appendCrc(form.prefix, random);
}

/** The same for an API key whose project has chosen a prefix. */
export function formatApiKey(prefix: string, env: Env, random: Uint8Array): string {
  return appendCrc(`${prefix}_${env}_`, random);
}

/** Null unless the text is exactly one credential: length, alphabet and lower-case CRC must be right. */
export function parseCredential(text: string): { kind: CredentialKind; env: Env | null; displayPrefix: string } | null {
  const form = findForm(text);
  if (!form || !hasValidCrc(text, form.prefix.length)) return null;
  return { kind: form.kind, env: form.env, displayPrefix: displayPrefixOf(text, form) };
}

/** The prefix and six characters of the body, safe to store and show; empty when no prefix is known. */
export function displayPrefix(text: string): string {
  const form = findForm(text);
  return form ? displayPrefixOf(text, form) : "";
}

/** The kind that the letters before the first underscore stand for: a mistyped `krsk_…` is a secret key. */
export function guessCredentialKind(text: string): CredentialKind | null {
  return FORMS.find((form) => text.startsWith(form.family))?.kind ?? null;
}

/** Whether it is of an API key with any prefix, or a mistyped one. */
export function looksLikeApiKey(text: string): boolean {
  return (guessCredentialKind(text) ?? chosenForm(text)?.kind) === "api_key";
}

export function formatInviteToken(workspaceId: string, random: Uint8Array): string {
  if (parseUuid(workspaceId) !== workspaceId) throw new RangeError("A workspace id is a lower-case UUID.");
  return appendCrc(`${workspaceId}.`, random);
}

/** `secret` is body and CRC. Rejects an upper-case workspace id, so that a token has one spelling. */
export function parseInviteToken(text: string): { workspace_id: string; secret: string } | null {
  const workspace_id = text.slice(0, UUID_CHARS);
  if (text[UUID_CHARS] !== "." || parseUuid(workspace_id) !== workspace_id) return null;
  if (!hasValidCrc(text, UUID_CHARS + 1)) return null;
  return { workspace_id, secret: text.slice(UUID_CHARS + 1) };
}

const CHOSEN = /^([a-z][a-z0-9]{1,8})_(live|test)_/;

function findForm(text: string): Form | undefined {
  return FORMS.find((form) => text.startsWith(form.prefix)) ?? chosenForm(text);
}

/** The form of an API key with a project's own prefix. Text that begins with `kr` is in FORMS or invalid. */
function chosenForm(text: string): Form | undefined {
  const [prefix, family = "", env] = CHOSEN.exec(text) ?? [];
  if (prefix === undefined || family.startsWith(OWN_PREFIX)) return undefined;
  return { kind: "api_key", env: env as Env, prefix, family: `${family}_` };
}

function displayPrefixOf(text: string, form: Form): string {
  return text.slice(0, form.prefix.length + DISPLAY_CHARS);
}

function appendCrc(prefix: string, random: Uint8Array): string {
  if (random.length !== RANDOM_BYTES) throw new RangeError(`A credential needs ${RANDOM_BYTES} random bytes.`);
  const head = prefix + toBase64Url(random);
  return head + crc32Hex(head);
}

function hasValidCrc(text: string, prefixChars: number): boolean {
  // Checks the length first, so that a megabyte of text costs nothing.
  if (text.length !== prefixChars + SECRET_CHARS || !SECRET.test(text.slice(prefixChars))) return false;
  return crc32Hex(text.slice(0, prefixChars + BODY_CHARS)) === text.slice(prefixChars + BODY_CHARS);
}
