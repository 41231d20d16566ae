import { DAY_MS } from "../src/kernel/durations.ts";
// security.txt (RFC 9116) for a release: where to report a vulnerability. The publisher serves it under /.well-known/
// and provides the address; without one there is no file.
/** The RFC recommends less than a year, so that a stale address expires. */
const GOOD_FOR_DAYS = 360;
const SCHEMES = ["https:", "mailto:", "tel:"];

/** `contact` is a URI as the RFC requires: https:, mailto: or tel:. */
export function securityTxt(contact: string, now: number): string {
  const protocol = URL.canParse(contact) && !/\s/.test(contact) ? new URL(contact).protocol : "";
  if (!SCHEMES.includes(protocol))
    throw new Error(`the contact of security.txt must be a URI (${SCHEMES.join(", ")}), such as mailto:a@example.com`);
  const expires = new Date(now + GOOD_FOR_DAYS * DAY_MS).toISOString().replace(/\.\d+Z$/, "Z");
  return `Contact: ${contact}\nExpires: ${expires}\nPreferred-Languages: en\n`;
}
