// The prefix of API keys, which each project may choose: a key is `<prefix>_<env>_<body><crc>`. The text before the
// first underscore is the prefix; there is no other parse. The longest makes a key of 55 characters, which still fits
// one SHA-256 block.

export const OWN_PREFIX = "kr";
export const PREFIX_FORM = /^[a-z][a-z0-9]{1,8}$/;

/**
 * Beginnings of credentials that others issue: their published patterns match ours too, and scanners would send keys to
 * them.
 */
const TAKEN = /* @__PURE__ */ new Set(
  (
    "sk pk rk whsec ghp gho ghu ghs ghr github glpat gldt npm pypi xoxb xoxp xapp shpat shpss shpca shppa hf dop doo rzp " +
    "sq0atp sq0csp akia asia aiza ya29 eyj live test key token api bearer basic"
  ).split(" "),
);

/** Why a project may not use this prefix; null when it may. Everything that begins with `kr` is a family of our own. */
export function prefixProblem(prefix: string): string | null {
  if (!PREFIX_FORM.test(prefix)) return "must be 2 to 9 lower-case letters and digits, beginning with a letter";
  if (prefix.startsWith(OWN_PREFIX) && prefix !== OWN_PREFIX) return "must not begin with kr";
  return TAKEN.has(prefix) ? "is used by another issuer of credentials" : null;
}
