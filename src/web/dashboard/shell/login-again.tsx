// Asks for the password again over the page when the session has ended. What was typed below stays.
import { lock, session } from "../api/session.ts";
import { logInAgain, logOut } from "../api/sign-in.ts";
import { Dialog } from "../components/dialog.tsx";
import { PasswordField, TextField } from "../forms/field.tsx";
import { Form } from "../forms/form.tsx";

const REASONS = {
  expired: "Your session has ended. Log in to continue where you were; nothing you typed is lost.",
  idle: "You were away for a while, so this page was locked. Log in to continue where you were.",
} as const;

export function LoginAgain() {
  if (lock.value === null) return null;
  const email = session.value?.user.email ?? "";
  return (
    <Dialog title="Log in again" onClose={() => {}} locked>
      <p>{REASONS[lock.value]}</p>
      <Form
        submit="Log in"
        watch={false}
        send={({ email = "", password = "" }) => logInAgain(email, password)}
        onCancel={logOut}
        cancel="Log out"
      >
        <TextField name="email" label="Email" type="email" autocomplete="username" value={email} />
        <PasswordField name="password" label="Password" autocomplete="current-password" autofocus={email !== ""} />
      </Form>
    </Dialog>
  );
}
