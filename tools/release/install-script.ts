// install.sh as it is released: with the release keys inside, so that it trusts no file it was downloaded with.
const FROM_CHECKOUT = 'release_keys() { cat "$root/release-keys"; }\n';

/** `script` is install.sh of the checkout, `keys` the text of an allowed_signers file. */
export function releasedInstallScript(script: string, keys: string): string {
  const parts = script.split(FROM_CHECKOUT);
  if (parts.length !== 2)
    throw new Error("install.sh must define release_keys once, in the form that this file replaces");
  if (/^KEYS$/m.test(keys)) throw new Error("release-keys must not contain the line KEYS");
  return parts.join(`release_keys() {\n  cat <<'KEYS'\n${keys.trimEnd()}\nKEYS\n}\n`);
}
