// Email addresses as they are compared: two spellings that differ in case are one account. Dots and plus signs are not
// folded, because providers differ in what they mean.
export function normalizeEmail(email: string): string {
  return email.normalize("NFC").toLowerCase();
}

/** The pattern of the HTML standard, which <input type="email"> uses. */
const EMAIL =
  /^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$/;

export function isEmail(text: string): boolean {
  return text.length <= 320 && EMAIL.test(text);
}
