// An address as it is compared: two spellings that differ in case are one account. Nothing else is folded: what a
// provider makes of dots and plus signs is its own affair.
export function normalizeEmail(email: string): string {
  return email.normalize("NFC").toLowerCase();
}
