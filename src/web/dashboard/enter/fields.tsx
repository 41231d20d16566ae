// Fields that several of these pages share.
import { useRead } from "../api/query.ts";
import { PasswordField, TextField } from "../forms/field.tsx";

export function EmailField({ value }: { value?: string }) {
  return (
    <TextField
      name="email"
      label="Email"
      type="email"
      autocomplete="username"
      {...(value !== undefined && { value })}
    />
  );
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
