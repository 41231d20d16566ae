// The security.txt of a release has what RFC 9116 requires, and accepts only valid contacts.
import { expect, it } from "vitest";
import { securityTxt } from "../../tools/security-txt.ts";

const NOW = Date.UTC(2026, 10, 15, 12, 30, 15, 250);
const YEAR_MS = 365 * 86_400_000;

for (const contact of ["mailto:security@example.com", "https://example.com/report", "tel:+1-201-555-0123"]) {
  it(`has a contact (${contact}) and an expiry of less than a year`, () => {
    const lines = securityTxt(contact, NOW).split("\n");
    expect(lines).toEqual([
      `Contact: ${contact}`,
      expect.stringMatching(/^Expires: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) as string,
      "Preferred-Languages: en",
      "",
    ]);
    const expires = Date.parse(lines[1]?.slice("Expires: ".length) ?? "");
    expect(expires).toBeGreaterThan(NOW);
    expect(expires).toBeLessThan(NOW + YEAR_MS);
  });
}

for (const contact of [
  "",
  "security@example.com",
  "http://example.com/report",
  "javascript:alert(1)",
  "mailto:a@example.com\nPolicy: https://evil.example",
]) {
  it(`refuses ${JSON.stringify(contact)} as a contact`, () => {
    expect(() => securityTxt(contact, NOW)).toThrow("must be a URI");
  });
}
