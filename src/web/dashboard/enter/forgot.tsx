// Requests a password reset link. The response is the same for every address.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { Form } from "../forms/form.tsx";
import { Card } from "./card.tsx";
import { EmailField } from "./fields.tsx";
import { NoMail } from "./mail.tsx";

export function ForgotForm({ submit, onSent }: { submit: string; onSent: (email: string) => void }) {
  return (
    <Form
      label="Reset your password"
      submit={submit}
      watch={false}
      send={async ({ email = "" }) => {
        await call("POST /v1/auth/password_resets", { body: { email } }, { token: null });
        onSent(email);
      }}
    >
      <EmailField />
    </Form>
  );
}

export function ResetSent({ email }: { email: string }) {
  return (
    <Card key="sent" title="Check your inbox" tone="good">
      <p>
        If <bdi>{email}</bdi> has an account, we sent it a reset link. The link works once and expires in 30 minutes.
      </p>
      <NoMail />
      <p>No email after a few minutes? Check your spam folder. You can request three links an hour.</p>
    </Card>
  );
}

export function Forgot() {
  const [sentTo, setSentTo] = useState<string | null>(null);
  if (sentTo !== null) return <ResetSent email={sentTo} />;
  return (
    <Card key="form" title="Reset your password">
      <p>Enter the email address of your account, and we will send you a link to reset your password.</p>
      <ForgotForm submit="Send reset link" onSent={setSentTo} />
      <p class="after">
        <a href="#/login">Log in</a>
      </p>
    </Card>
  );
}
