// Logging in. The page that was asked for opens afterwards.
import { useRead } from "../api/query.ts";
import { logIn } from "../api/sign-in.ts";
import { CheckField } from "../forms/field.tsx";
import { Form } from "../forms/form.tsx";
import { Card } from "./card.tsx";
import { CurrentPasswordField, EmailField } from "./fields.tsx";

export function LogIn() {
  const { data, problem } = useRead("GET /v1/setup", {}).state.value;
  // Without an answer (a 0.1 server lacks the field) the link is shown; the sign-up form says if sign-up is closed.
  const maySignUp = data ? (data.sign_up ?? "open") === "open" : problem !== null;
  return (
    <Card title="Log in">
      <Form
        submit="Log in"
        watch={false}
        send={({ email = "", password = "", stay }) => logIn(email, password, stay === "true")}
        footer={
          <p class="after">
            <a href="#/forgot">Forgot your password?</a>
            {maySignUp && <a href="#/signup">Sign up</a>}
          </p>
        }
      >
        <EmailField />
        <CurrentPasswordField />
        <CheckField name="stay" label="Stay signed in when this tab reloads" checked />
      </Form>
    </Card>
  );
}
