// What the login pages know about mail: whether the server delivers it, and what to do where it does not.
import type { ComponentChildren } from "preact";
import { useRead } from "../api/query.ts";
import { Snippet } from "../components/snippet.tsx";
import { Card } from "./card.tsx";

/** True until it is known. */
export function useDeliversMail(): boolean {
  const mail = useRead("GET /v1/setup", {}).state.value.data?.mail;
  return mail === undefined || mail === "smtp";
}

/** For a person who waits for a link: how to get it without mail. */
export function NoMail() {
  if (useDeliversMail()) return null;
  return (
    <p>
      This server does not deliver mail. Ask the person who runs it for the link in the message, or for one that they
      print with <code>keyrack user reset-link EMAIL</code>.
    </p>
  );
}

/** Instead of "Check your inbox", where no mail arrives. `children`: where to go from here. */
export function AskOperator({ children }: { children: ComponentChildren }) {
  return (
    <Card key="operator" title="Ask your operator for the link">
      <p>
        This server does not deliver mail. The person who runs it can print a link for your email address. It works
        once, verifies your address and lets you choose a password.
      </p>
      <Snippet code="keyrack user reset-link EMAIL" name="command" />
      {children}
    </Card>
  );
}
