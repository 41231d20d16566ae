// The text of every credential, in characters:
//
//   prefix | body: 32 of A-Z a-z 0-9 - _ (24 random bytes, base64url) | crc: 8 of 0-9 a-f
//
// where crc = CRC-32 (crc32.ts) over prefix+body. An invitation has `<workspace_id>.` (lower-case UUID and a dot)
// as its prefix, so its crc covers `<workspace_id>.<body>` and it is 77 characters. What is stored of any of them is
// SHA-256 over the whole text. A right CRC proves only that nothing was mistyped: anyone can compute it.

import { toBase64Url } from "./crypto/bytes.ts";
import { crc32Hex } from "./crypto/crc32.ts";
import { parseUuid } from "./ids.ts";

export type Env = "live" | "test";
export const ENVS = ["live", "test"] as const;

export type CredentialKind =
  | "api_key"
  | "secret_key"
  | "session"
  | "bootstrap"
  | "email_verification"
  | "password_reset";

export const PREFIXES = {
  api_key: { live: "kr_live_", test: "kr_test_" },
  secret_key: { live: "krsk_live_", test: "krsk_test_" },
  session: "krses_",
  bootstrap: "krboot_",
  email_verification: "krev_",
  password_reset: "krpr_",
} as const satisfies Record<CredentialKind, string | Record<Env, string>>;

/** Regex sources for secret scanners. They carry no anchors, and a match still has to pass `parseCredential`. */
export const CREDENTIAL_PATTERN = [
  "kr(sk)?_(live|test)_[A-Za-z0-9_-]{32}[0-9a-f]{8}",
  "kr(ses|boot|ev|pr)_[A-Za-z0-9_-]{32}[0-9a-f]{8}",
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

/** `env` is null for the kinds that have none; anything else is a programming error and throws. */
export function formatCredential(kind: CredentialKind, env: Env | null, random: Uint8Array): string {
  const form = FORMS.find((form) => form.kind === kind && form.env === env);
  if (!form) throw new RangeError(`A ${kind} has no form for env ${env}.`);
  return seal(form.prefix, random);
}

/** Null for whatever is not exactly one credential: wrong length, alphabet, CRC, or an upper-case CRC. */
export function parseCredential(text: string): { kind: CredentialKind; env: Env | null; displayPrefix: string } | null {
  const form = formOf(text);
  if (!form || !isSealed(text, form.prefix.length)) return null;
  return { kind: form.kind, env: form.env, displayPrefix: shown(text, form) };
}

/** The prefix and six characters of the body, safe to store and show; empty when no prefix is known. */
export function displayPrefix(text: string): string {
  const form = formOf(text);
  return form ? shown(text, form) : "";
}

/** What the text set out to be, by the letters before its first underscore: a mistyped `krsk_…` is a secret key. */
export function guessCredentialKind(text: string): CredentialKind | null {
  return FORMS.find((form) => text.startsWith(form.family))?.kind ?? null;
}

export function formatInviteToken(workspaceId: string, random: Uint8Array): string {
  if (parseUuid(workspaceId) !== workspaceId) throw new RangeError("A workspace id is a lower-case UUID.");
  return seal(`${workspaceId}.`, random);
}

/** `secret` is what follows the dot: body and CRC. An upper-case workspace id is refused: one token, one spelling. */
export function parseInviteToken(text: string): { workspace_id: string; secret: string } | null {
  const workspace_id = text.slice(0, UUID_CHARS);
  if (text[UUID_CHARS] !== "." || parseUuid(workspace_id) !== workspace_id) return null;
  if (!isSealed(text, UUID_CHARS + 1)) return null;
  return { workspace_id, secret: text.slice(UUID_CHARS + 1) };
}

function formOf(text: string): Form | undefined {
  return FORMS.find((form) => text.startsWith(form.prefix));
}

function shown(text: string, form: Form): string {
  return text.slice(0, form.prefix.length + DISPLAY_CHARS);
}

function seal(prefix: string, random: Uint8Array): string {
  if (random.length !== RANDOM_BYTES) throw new RangeError(`A credential takes ${RANDOM_BYTES} random bytes.`);
  const head = prefix + toBase64Url(random);
  return head + crc32Hex(head);
}

function isSealed(text: string, prefixChars: number): boolean {
  // The length first, so that a megabyte of text costs nothing.
  if (text.length !== prefixChars + SECRET_CHARS || !SECRET.test(text.slice(prefixChars))) return false;
  return crc32Hex(text.slice(0, prefixChars + BODY_CHARS)) === text.slice(prefixChars + BODY_CHARS);
}
