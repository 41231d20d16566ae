// Where an address without a link leads.
import { h } from "../dom.ts";
import { show, text } from "../components/page.ts";

export function homePage(): void {
  show(
    { title: "This is a Keyrack server" },
    text("It manages API keys. Programs talk to it; people come here by the links in its mail."),
    text("To verify an address, choose a new password or accept an invitation, open the link in your message."),
    text(h("a", { href: "#/forgot" }, "Forgot your password?")),
  );
}
