// Signing up. The response is the same for every address, so the page says the same too.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { Card } from "./card.tsx";
import { EmailField, NewPasswordField } from "./fields.tsx";

export function SignUp() {
  const [sentTo, setSentTo] = useState<string | null>(null);
  if (sentTo !== null)
    return (
      <Card key="sent" title="Check your inbox" tone="good">
        <p>
          We sent a link to <bdi>{sentTo}</bdi>. Open it to verify your email address, then log in.
        </p>
        <p>No email after a few minutes? Check your spam folder.</p>
        <p class="after">
          <a href="#/login">Log in</a>
        </p>
      </Card>
    );
  const send = async ({ email = "", password = "", name = "" }: Values): Promise<void> => {
    await call("POST /v1/auth/users", { body: { email, password, ...(name !== "" && { name }) } }, { token: null });
    setSentTo(email);
  };
  return (
    <Card key="form" title="Sign up">
      <Form
        submit="Sign up"
        send={send}
        footer={
          <p class="after">
            <a href="#/login">Log in</a>
          </p>
        }
      >
        <EmailField />
        <TextField name="name" label="Your name" autocomplete="name" optional />
        <NewPasswordField />
      </Form>
    </Card>
  );
}
