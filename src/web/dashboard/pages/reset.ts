// Choosing a new password with a link.
import { call } from "../api.ts";
import { form } from "../components/form.ts";
import { show, text } from "../components/page.ts";
import { forgotForm } from "./forgot.ts";
import { isStale, stalePage } from "./invalid-link.ts";
import { newPasswordField } from "./login.ts";

export function resetPage(token: string): void {
  const password = newPasswordField("New password");
  show(
    { title: "Choose a new password" },
    text("It replaces the old one, and everybody who is logged in to your account is logged out."),
    form({
      fields: [password],
      submit: "Set the new password",
      send: async () => {
        await call("POST /v1/auth/password_resets/consume", { body: { token, password: password.value() } });
        donePage();
      },
      refused: (refusal) => isStale(refusal) && (expiredPage(), true),
    }),
  );
}

function donePage(): void {
  show(
    { title: "Your new password is set", tone: "good" },
    text("Use it from now on. All sessions of your account have ended, and your address counts as verified."),
    text("You can close this page."),
  );
}

function expiredPage(): void {
  stalePage(
    text("It works once, for 30 minutes, and a newer one replaces it. Your password is as it was."),
    text("Have a new link sent to the e-mail address of your account:"),
    forgotForm("Send me a new link"),
  );
}
