// What the login pages know about mail: whether the server delivers it, and what to do where it does not.
import { useRead } from "../api/query.ts";

/** True until it is known. */
export function useDeliversMail(): boolean {
  const mail = useRead("GET /v1/setup", {}).answer.value.data?.mail;
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
