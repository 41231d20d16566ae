// Asks a signed-in person to verify their address before they go further.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import type { Problem } from "../api/problems.ts";
import { session } from "../api/session.ts";
import { Button } from "../components/button.tsx";
import { Form } from "../forms/form.tsx";
import { Card } from "./card.tsx";
import { NoMail, useDeliversMail } from "./mail.tsx";

type VerifyFirstProps = { onContinue: () => Promise<void>; onRefused: (problem: Problem) => void };

export function VerifyFirst({ onContinue, onRefused }: VerifyFirstProps) {
  const [status, setStatus] = useState("");
  const isMailed = useDeliversMail();
  const email = session.value?.user.email ?? "";
  const resend = (): void => {
    call("POST /v1/auth/email_verifications", { body: {} }).then(
      () => setStatus(`Email sent to ${email}.`),
      () => setStatus("The email could not be sent. Try again in a moment."),
    );
  };
  const onProblem = (problem: Problem): boolean => {
    if (problem.code === "email_unverified") setStatus(`${email} is not verified yet.`);
    else if (problem.status === 400 || problem.status === 409) onRefused(problem);
    else return false;
    return true;
  };
  return (
    <Card key="unverified" title="One more step: verify your email address">
      <p>
        {isMailed ? "Open the link that we sent to" : "Open the link that was made for"} <bdi>{email}</bdi>, then come
        back to this page and continue.
      </p>
      <NoMail />
      <Form
        submit="Continue"
        watch={false}
        send={onContinue}
        onProblem={onProblem}
        actions={<Button onClick={resend}>Resend email</Button>}
      />
      <p role="status">{status}</p>
    </Card>
  );
}
