// Fields that several of these pages share.
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

export function NewPasswordField({ label = "Password", min = 12 }: { label?: string; min?: number }) {
  const hint = `At least ${min} characters. Four unrelated words make a good password.`;
  return <PasswordField name="password" label={label} autocomplete="new-password" hint={hint} />;
}

export function CurrentPasswordField() {
  return <PasswordField name="password" label="Password" autocomplete="current-password" />;
}
