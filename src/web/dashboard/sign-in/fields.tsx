// Fields that several of these pages share.
import { signal } from "@preact/signals";
import { useRead } from "../api/query.ts";
import { onForget } from "../api/session.ts";
import { PasswordField, TextField } from "../forms/field.tsx";

/** What was typed on one of these pages, so that the next one does not ask for it again. */
const typedEmail = signal("");
const typeEmail = (text: string): void => void (typedEmail.value = text);
onForget(() => typeEmail(""));

export function EmailField() {
  const { value } = typedEmail;
  return (
    <TextField name="email" label="Email" type="email" autocomplete="username" value={value} onInput={typeEmail} />
  );
}

const ADVICE = "Four unrelated words make a good password.";

/** Says how many characters this server requires. */
export function NewPasswordField({ label = "Password", note = ADVICE }: { label?: string; note?: string }) {
  const min = useRead("GET /v1/setup", {}).state.value.data?.password_min;
  const hint = min === undefined ? note : `At least ${min} characters. ${note}`;
  return <PasswordField name="password" label={label} autocomplete="new-password" hint={hint} />;
}

export function CurrentPasswordField() {
  return <PasswordField name="password" label="Password" autocomplete="current-password" />;
}
