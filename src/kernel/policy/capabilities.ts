// Capabilities of the policy feed. A node ignores fields of a key entry that it does not know, so a restriction sent as
// a field would be ignored by a library of an earlier release. A node therefore announces what it enforces (`caps`),
// and the server withholds a key from every node that cannot enforce all of it. A set of capabilities is a bit mask;
// the bits are stored.

/**
 * cidr: address lists. disabled: refuses disabled keys as such. formats: key prefixes other than `kr`. quotas: charges
 * the quotas of metered keys. In sorted order.
 */
export const CAPABILITIES = ["cidr", "disabled", "formats", "quotas"] as const;
export type Capability = (typeof CAPABILITIES)[number];

export const CAP = { cidr: 1, disabled: 2, formats: 4, quotas: 8 } as const satisfies Record<Capability, number>;
export const NO_CAPS = 0;

const TOKEN = /^[a-z][a-z0-9_]{0,31}$/;
const TOKENS_MAX = 32;
export const CAPS_CHARS_MAX = 512;

/**
 * The known tokens of a list joined by commas; null when it is malformed. Unknown tokens are ignored: a later node
 * sends them.
 */
export function parseCaps(text: string): number | null {
  const tokens = text.split(",");
  const isSound =
    text.length <= CAPS_CHARS_MAX && tokens.length <= TOKENS_MAX && tokens.every((token) => TOKEN.test(token));
  if (!isSound || new Set(tokens).size < tokens.length) return null;
  return maskOf(tokens);
}

/** The needed capabilities that a node with these (as stored) lacks. */
export function missingFrom(caps: string, needs: number): Capability[] {
  return needs === NO_CAPS ? [] : capabilitiesIn(needs & ~maskOf(caps.split(",")));
}

/** Capabilities as stored: joined by commas. */
export function listCaps(caps: string): Capability[] {
  return capabilitiesIn(maskOf(caps.split(",")));
}

export function maskOf(tokens: readonly string[]): number {
  return CAPABILITIES.reduce((mask, name) => (tokens.includes(name) ? mask | CAP[name] : mask), NO_CAPS);
}

/** Sorted. */
export function capabilitiesIn(mask: number): Capability[] {
  return CAPABILITIES.filter((name) => (mask & CAP[name]) !== 0);
}
