// Verifies an email address. It needs a click, because mail scanners open links too and must not verify anything.
import { call, type Session } from "../api.ts";
import { form } from "../components/form.ts";
import { show, text } from "../components/page.ts";
import { expiredLinkPage, isInvalidToken } from "./invalid-link.ts";
import { loginForm } from "./login.ts";

export function verifyPage(token: string): void {
  show(
    { title: "Verify your email address" },
    text("Confirm that the email with this link reached you."),
    text("If you did not sign up, close this page. Nothing will happen."),
    form({
      fields: [],
      submit: "Verify email address",
      send: async () => {
        await call("POST /v1/auth/email_verifications/consume", { body: { token } });
        verifiedPage();
      },
      onError: (error) => isInvalidToken(error) && (expiredPage(), true),
    }),
  );
}

function verifiedPage(): void {
  show({ title: "Your email address is verified", tone: "good" }, text("You can close this page."));
}

function expiredPage(): void {
  expiredLinkPage(
    text("A verification link works once, expires after 24 hours and is replaced by a newer one."),
    text("If you have already used it, there is nothing to do. Otherwise, log in to get a new link."),
    loginForm({ label: "Get a new link", submit: "Send a new link", onLogin: resend }),
  );
}

async function resend(session: Session): Promise<void> {
  const { email, email_verified } = session.user;
  try {
    if (email_verified) return verifiedPage();
    await call("POST /v1/auth/email_verifications", { body: {} }, session);
  } finally {
    void session.end();
  }
  show(
    { title: "Check your inbox", tone: "good" },
    text(`We sent a new link to ${email}. It expires in 24 hours. You can close this page.`),
  );
}
