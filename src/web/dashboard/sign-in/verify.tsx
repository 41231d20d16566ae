// Verifies an email address. It needs a click, because mail scanners open links too and must not verify anything.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { isInvalidToken, Problem, problemMessage, toProblem } from "../api/problems.ts";
import { useRead } from "../api/query.ts";
import { session } from "../api/session.ts";
import { refreshMe } from "../api/sign-in.ts";
import { LinkButton } from "../components/button.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { Card } from "./card.tsx";
import { CurrentPasswordField, EmailField } from "./fields.tsx";
import { ExpiredLink } from "./invalid-link.tsx";
import { NoMail } from "./mail.tsx";

type Step = { name: "form" | "verified" | "expired" } | { name: "sent"; email: string };

/** Logs in only to ask for a new link. */
async function resend({ email = "", password = "" }: Values): Promise<Step> {
  const created = await call("POST /v1/auth/sessions", { body: { email, password } }, { token: null });
  const { token, user } = created;
  try {
    if (user.email_verified) return { name: "verified" };
    await call("POST /v1/auth/email_verifications", { body: {} }, { token });
    return { name: "sent", email: user.email };
  } finally {
    void call("DELETE /v1/auth/sessions/current", {}, { token, keepalive: true }).catch(() => {});
  }
}

/** Where unverified people cannot log in, the right password is refused too, but a new link is mailed. */
function notVerified(error: unknown): Problem {
  const problem = toProblem(error);
  if (problem.code !== "invalid_credentials") return problem;
  return new Problem(400, { message: `${problemMessage(problem)} If both were right, a new link is on its way.` });
}

function Verified() {
  const signedIn = session.value !== null;
  return (
    <Card key="verified" title="Your email address is verified" tone="good">
      <p>{signedIn ? "You can continue where you were." : "Log in to continue."}</p>
      <div class="buttons">
        <LinkButton kind="primary" href={signedIn ? "#/" : "#/login"}>
          {signedIn ? "Continue" : "Log in"}
        </LinkButton>
      </div>
    </Card>
  );
}

function Expired({ onStep }: { onStep: (step: Step) => void }) {
  const refuses = useRead("GET /v1/setup", {}).state.value.data?.unverified_login === "refuse";
  const send = async (values: Values): Promise<void> => {
    const next = await resend(values).catch((error: unknown) => {
      throw refuses ? notVerified(error) : error;
    });
    onStep(next);
  };
  return (
    <ExpiredLink>
      <p>A verification link works once, expires after 24 hours and is replaced by a newer one.</p>
      <p>If you have already used it, there is nothing to do. Otherwise, log in to get a new link.</p>
      <Form label="Get a new link" submit="Send a new link" watch={false} send={send}>
        <EmailField />
        <CurrentPasswordField />
      </Form>
    </ExpiredLink>
  );
}

export function Verify({ token }: { token: string }) {
  const [step, setStep] = useState<Step>({ name: "form" });
  if (step.name === "verified") return <Verified />;
  if (step.name === "sent")
    return (
      <Card key="sent" title="Check your inbox" tone="good">
        <p>
          We sent a new link to <bdi>{step.email}</bdi>. It expires in 24 hours.
        </p>
        <NoMail />
      </Card>
    );
  if (step.name === "expired") return <Expired onStep={setStep} />;
  return (
    <Card key="form" title="Verify your email address">
      <p>Confirm that this is your email address.</p>
      <p>If you did not sign up, close this page. Nothing will happen.</p>
      <Form
        submit="Verify email address"
        watch={false}
        send={async () => {
          await call("POST /v1/auth/email_verifications/consume", { body: { token } }, { token: null });
          // The address is verified, whether this read succeeds or not.
          if (session.value) void refreshMe().catch(() => {});
          setStep({ name: "verified" });
        }}
        onProblem={(problem) => {
          if (isInvalidToken(problem)) setStep({ name: "expired" });
          return isInvalidToken(problem);
        }}
      />
    </Card>
  );
}
