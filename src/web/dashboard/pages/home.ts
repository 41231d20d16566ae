// The page of an address without a link.
import { h } from "../../shared/dom.ts";
import { show, text } from "../components/page.ts";

export function homePage(): void {
  show(
    { title: "This is a Keyrack server" },
    text("Keyrack manages API keys. Programs use its API; people come here through links in their email."),
    text("To verify your email address, reset your password or accept an invitation, open the link we sent you."),
    text(h("a", { href: "#/forgot" }, "Forgot your password?")),
  );
}
