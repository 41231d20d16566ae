// Signing up. The response is the same for every address, so the page says the same too.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { useRead } from "../api/query.ts";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { Card, LogInLink } from "./card.tsx";
import { EmailField, NewPasswordField } from "./fields.tsx";
import { AskOperator, useDeliversMail } from "./mail.tsx";

function Sent({ to }: { to: string }) {
  if (!useDeliversMail())
    return (
      <AskOperator>
        <LogInLink />
      </AskOperator>
    );
  return (
    <Card key="sent" title="Check your inbox" tone="good">
      <p>
        We sent a link to <bdi>{to}</bdi>. Open it to verify your email address, then log in.
      </p>
      <p>No email after a few minutes? Check your spam folder.</p>
      <LogInLink />
    </Card>
  );
}

function Closed({ isByInvitation }: { isByInvitation: boolean }) {
  return (
    <Card key="closed" title={isByInvitation ? "Sign-up is by invitation" : "Sign-up is closed"}>
      <p>
        {isByInvitation
          ? "Ask the owner of a workspace for an invitation, and open its link."
          : "Ask the person who runs this server for an account."}
      </p>
      <LogInLink />
    </Card>
  );
}

export function SignUp() {
  const [sentTo, setSentTo] = useState<string | null>(null);
  const mode = useRead("GET /v1/setup", {}).state.value.data?.sign_up ?? "open";
  if (sentTo !== null) return <Sent to={sentTo} />;
  if (mode !== "open") return <Closed isByInvitation={mode === "invite"} />;
  const send = async ({ email = "", password = "", name = "" }: Values): Promise<void> => {
    await call("POST /v1/auth/users", { body: { email, password, ...(name !== "" && { name }) } }, { token: null });
    setSentTo(email);
  };
  return (
    <Card key="form" title="Sign up">
      <Form submit="Sign up" send={send} footer={<LogInLink />}>
        <EmailField />
        <TextField name="name" label="Your name" autocomplete="name" optional />
        <NewPasswordField />
      </Form>
    </Card>
  );
}
