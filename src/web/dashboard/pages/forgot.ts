// Requests a password reset link. The response is the same for every address.
import { call } from "../api.ts";
import { form } from "../components/form.ts";
import { show, text } from "../components/page.ts";
import { emailField } from "./login.ts";

export function forgotPage(): void {
  show(
    { title: "Reset your password" },
    text("Enter the email address of your account, and we will send you a link to reset your password."),
    forgotForm("Send reset link"),
  );
}

export function forgotForm(submit: string): HTMLFormElement {
  const email = emailField();
  return form({
    label: "Reset your password",
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
    { title: "Check your inbox", tone: "good" },
    text(`If ${address} has an account, we sent it a reset link. The link works once and expires in 30 minutes.`),
    text("No email after a few minutes? Check your spam folder. You can request three links an hour."),
  );
}
