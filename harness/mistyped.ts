/** A credential with another last character, so with a wrong checksum whatever the right one ends with. */
export function mistyped(credential: string): string {
  return `${credential.slice(0, -1)}${credential.endsWith("0") ? "1" : "0"}`;
}
