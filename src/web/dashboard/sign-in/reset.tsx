// Sets a new password with a reset link.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { isInvalidToken } from "../api/problems.ts";
import { Form } from "../forms/form.tsx";
import { Card, LogInButton } from "./card.tsx";
import { NewPasswordField } from "./fields.tsx";
import { ForgotForm, ResetSent } from "./forgot.tsx";
import { ExpiredLink } from "./invalid-link.tsx";

function Expired() {
  const [sentTo, setSentTo] = useState<string | null>(null);
  if (sentTo !== null) return <ResetSent email={sentTo} onBack={() => setSentTo(null)} />;
  return (
    <ExpiredLink>
      <p>A reset link works once, expires after 30 minutes and is replaced by a newer one.</p>
      <p>Your password has not changed. Enter your email address to get a new link.</p>
      <ForgotForm submit="Send a new link" onSent={setSentTo} />
    </ExpiredLink>
  );
}

export function Reset({ token }: { token: string }) {
  const [step, setStep] = useState<"form" | "done" | "expired">("form");
  if (step === "expired") return <Expired />;
  if (step === "done")
    return (
      <Card key="done" title="Your password has been reset" tone="good">
        <p>All sessions of your account have ended, and your email address is verified.</p>
        <LogInButton />
      </Card>
    );
  return (
    <Card key="form" title="Choose a new password">
      <p>It replaces your old password and logs you out everywhere.</p>
      <Form
        submit="Reset password"
        watch={false}
        send={async ({ password = "" }) => {
          await call("POST /v1/auth/password_resets/consume", { body: { token, password } }, { token: null });
          setStep("done");
        }}
        onProblem={(problem) => {
          if (isInvalidToken(problem)) setStep("expired");
          return isInvalidToken(problem);
        }}
      >
        <NewPasswordField label="New password" />
      </Form>
    </Card>
  );
}
