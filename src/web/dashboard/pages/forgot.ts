// Asking for a link to choose a new password. The answer is the same for every address.
import { call } from "../api.ts";
import { form } from "../components/form.ts";
import { show, text } from "../components/page.ts";
import { emailField } from "./login.ts";

export function forgotPage(): void {
  show(
    { title: "Choose a new password" },
    text("Tell us the e-mail address of your account, and a link goes out to it."),
    forgotForm("Send me a link"),
  );
}

export function forgotForm(submit: string): HTMLFormElement {
  const email = emailField();
  return form({
    label: "Get a link",
    submit,
    fields: [email],
    send: async () => {
      await call("POST /v1/auth/password_resets", { body: { email: email.value() } });
      sentPage(email.value());
    },
  });
}

function sentPage(address: string): void {
  show(
    { title: "Look into your mailbox", tone: "good" },
    text(`If ${address} has an account here, a link is on its way to it. It works once, for 30 minutes.`),
    text("Nothing there after a few minutes? Look among the unwanted mail. At most three links go out in an hour."),
  );
}
