// Verifying an address. It takes a press of a button: programs that look into mail open links too, and must not vouch
// for anybody.
import { call, type Session } from "../api.ts";
import { form } from "../components/form.ts";
import { show, text } from "../components/page.ts";
import { isStale, stalePage } from "./invalid-link.ts";
import { loginForm } from "./login.ts";

export function verifyPage(token: string): void {
  show(
    { title: "Verify your e-mail address" },
    text("Press the button to confirm that the message with this link reached you."),
    text("You did not sign up here? Then close this page, and nothing happens."),
    form({
      fields: [],
      submit: "Verify my address",
      send: async () => {
        await call("POST /v1/auth/email_verifications/consume", { body: { token } });
        verifiedPage();
      },
      refused: (refusal) => isStale(refusal) && (unverifiedPage(), true),
    }),
  );
}

function verifiedPage(): void {
  show(
    { title: "Your address is verified", tone: "good" },
    text("There is nothing more to do. You can close this page."),
  );
}

function unverifiedPage(): void {
  stalePage(
    text("It works once, for 24 hours, and a newer one replaces it. If you have used it already, all is well."),
    text("Log in to have a new one sent, or to see that you need none."),
    loginForm({ label: "Get a new link", submit: "Send me a new link", loggedIn: sendAgain }),
  );
}

async function sendAgain(session: Session): Promise<void> {
  const { email, email_verified } = session.user;
  try {
    if (email_verified) return verifiedPage();
    await call("POST /v1/auth/email_verifications", { body: {} }, session);
  } finally {
    void session.end();
  }
  show(
    { title: "A new link is on its way", tone: "good" },
    text(`Look for a message to ${email}, and open its link within 24 hours. You can close this page.`),
  );
}
