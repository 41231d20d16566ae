// Sets a new password with a reset link.
import { call } from "../api.ts";
import { form } from "../components/form.ts";
import { show, text } from "../components/page.ts";
import { forgotForm } from "./forgot.ts";
import { expiredLinkPage, isInvalidToken } from "./invalid-link.ts";
import { newPasswordField } from "./login.ts";

export function resetPage(token: string): void {
  const password = newPasswordField("New password");
  show(
    { title: "Choose a new password" },
    text("It replaces your old password and logs you out everywhere."),
    form({
      fields: [password],
      submit: "Reset password",
      send: async () => {
        await call("POST /v1/auth/password_resets/consume", { body: { token, password: password.value() } });
        donePage();
      },
      onError: (error) => isInvalidToken(error) && (expiredPage(), true),
    }),
  );
}

function donePage(): void {
  show(
    { title: "Your password has been reset", tone: "good" },
    text("All sessions of your account have ended, and your email address is verified."),
    text("You can close this page."),
  );
}

function expiredPage(): void {
  expiredLinkPage(
    text("A reset link works once, expires after 30 minutes and is replaced by a newer one."),
    text("Your password has not changed. Enter your email address to get a new link."),
    forgotForm("Send a new link"),
  );
}
