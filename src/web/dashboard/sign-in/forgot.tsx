// Requests a password reset link. The response is the same for every address.
import { useState } from "preact/hooks";
import { formatClock } from "../../shared/format.ts";
import { call } from "../api/call.ts";
import { serverNow } from "../api/clock.ts";
import { problemMessage, toProblem } from "../api/problems.ts";
import { Form } from "../forms/form.tsx";
import { Button } from "../components/button.tsx";
import { Card, LogInLink } from "./card.tsx";
import { EmailField } from "./fields.tsx";
import { AskOperator, useDeliversMail } from "./mail.tsx";

const requestLink = (email: string): Promise<unknown> =>
  call("POST /v1/auth/password_resets", { body: { email } }, { token: null });

export function ForgotForm({ submit, onSent }: { submit: string; onSent: (email: string) => void }) {
  return (
    <Form
      label="Reset your password"
      submit={submit}
      watch={false}
      send={async ({ email = "" }) => {
        await requestLink(email);
        onSent(email);
      }}
    >
      <EmailField />
    </Form>
  );
}

export function ResetSent({ email, onBack }: { email: string; onBack: () => void }) {
  const [status, setStatus] = useState("");
  const isMailed = useDeliversMail();
  const [busy, setBusy] = useState(false);
  const resend = async (): Promise<void> => {
    setBusy(true);
    setStatus(""); // a screen reader does not repeat a text that stays
    const sent = () => `Email sent again at ${formatClock(serverNow())}.`;
    setStatus(await requestLink(email).then(sent, (error: unknown) => problemMessage(toProblem(error))));
    setBusy(false);
  };
  if (!isMailed)
    return (
      <AskOperator>
        <p class="after">
          <a href="#/login">Back to log in</a>
        </p>
      </AskOperator>
    );
  return (
    <Card key="sent" title="Check your inbox" tone="good">
      <p>
        If <bdi>{email}</bdi> has an account, we sent it a reset link. The link works once and expires in 30 minutes.
      </p>
      <p>No email after a few minutes? Check your spam folder. You can request three links an hour.</p>
      <div class="buttons">
        <Button busy={busy} onClick={() => void resend()}>
          Resend email
        </Button>
      </div>
      <p role="status">{status}</p>
      <p class="after">
        <a href="#/login">Back to log in</a>
        <button type="button" class="link" onClick={onBack}>
          Use another address
        </button>
      </p>
    </Card>
  );
}

export function Forgot() {
  const [sentTo, setSentTo] = useState<string | null>(null);
  if (sentTo !== null) return <ResetSent email={sentTo} onBack={() => setSentTo(null)} />;
  return (
    <Card key="form" title="Reset your password">
      <p>Enter the email address of your account, and we will send you a link to reset your password.</p>
      <ForgotForm submit="Send reset link" onSent={setSentTo} />
      <LogInLink />
    </Card>
  );
}
