// Email addresses as they are compared: two spellings that differ in case are one account. Dots and plus signs are not
// folded, because providers differ in what they mean.
export function normalizeEmail(email: string): string {
  return email.normalize("NFC").toLowerCase();
}
