// Fields that several of these pages share.
import { useState } from "preact/hooks";
import { useRead } from "../api/query.ts";
import { PasswordField, TextField } from "../forms/field.tsx";

/** What was typed on one of these pages, so that the next one does not ask for it again. */
let typedEmail = "";
export const forgetTypedEmail = (): void => void (typedEmail = "");

export function EmailField({ value }: { value?: string }) {
  const [email, setEmail] = useState(value ?? typedEmail);
  const onInput = (text: string): void => {
    typedEmail = text;
    setEmail(text);
  };
  return <TextField name="email" label="Email" type="email" autocomplete="username" value={email} onInput={onInput} />;
}

const ADVICE = "Four unrelated words make a good password.";

/** Says how many characters this server requires. */
export function NewPasswordField({ label = "Password", note = ADVICE }: { label?: string; note?: string }) {
  const min = useRead("GET /v1/setup", {}).answer.value.data?.password_min;
  const hint = min === undefined ? note : `At least ${min} characters. ${note}`;
  return <PasswordField name="password" label={label} autocomplete="new-password" hint={hint} />;
}

export function CurrentPasswordField() {
  return <PasswordField name="password" label="Password" autocomplete="current-password" />;
}
