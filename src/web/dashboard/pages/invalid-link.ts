// Pages for links that do not work. The API does not distinguish used, expired and forged tokens, so neither does the
// text.
import type { Child } from "../../shared/dom.ts";
import type { ApiError } from "../api.ts";
import { show, text } from "../components/page.ts";

export function isInvalidToken({ code, details }: ApiError): boolean {
  return code === "invalid_token" || details.some(({ path }) => path === "token");
}

/** `next`: what to do instead. */
export function expiredLinkPage(...next: Child[]): void {
  show({ title: "This link has expired or was already used", tone: "bad" }, ...next);
}

/** After a reload, or when the address was typed: the token is no longer in the address bar. */
export function missingTokenPage(): void {
  show(
    { title: "Open the link again" },
    text("For your security, the link is removed from the address bar as soon as its page opens."),
    text("To continue, open the link in your email again."),
  );
}
