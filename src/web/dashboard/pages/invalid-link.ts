// What links have in common: one that is not there, and one that no longer works. The API tells used, expired and
// made-up ones apart for nobody, so neither do these words.
import type { Refused } from "../api.ts";
import type { Child } from "../dom.ts";
import { show, text } from "../components/page.ts";

export function isStale({ code, details }: Refused): boolean {
  return code === "invalid_token" || details.some(({ path }) => path === "token");
}

export function stalePage(...next: Child[]): void {
  show({ title: "This link no longer works", tone: "bad" }, ...next);
}

export function linklessPage(): void {
  show(
    { title: "Open the link again" },
    text("A link is taken out of the address as soon as its page opens, so that nobody else can use it."),
    text("To go on, open the link in the e-mail message once more."),
  );
}
