// Links that do not work. The API does not distinguish used, expired and forged tokens, so neither does the text.
import type { ComponentChildren } from "preact";
import { Card, LogInLink } from "./card.tsx";

/** `children`: what to do instead. */
export function ExpiredLink({ children }: { children: ComponentChildren }) {
  return (
    <Card key="expired" title="This link has expired or was already used" tone="bad">
      {children}
    </Card>
  );
}

/** After a reload, or when the address was typed: the token is no longer in the address bar. */
export function MissingToken() {
  return (
    <Card title="Open the link again">
      <p>For your security, the link is removed from the address bar as soon as its page opens.</p>
      <p>To continue, open the link in your email again.</p>
      <LogInLink />
    </Card>
  );
}
