// Logging in on the way to something else.
import { Session, type Refused } from "../api.ts";
import { h } from "../dom.ts";
import { field, type Field } from "../components/field.ts";
import { form } from "../components/form.ts";

export function emailField(): Field {
  return field({ name: "email", label: "E-mail address", type: "email", autocomplete: "username" });
}

export function newPasswordField(label: string): Field {
  const hint = "12 characters or more. Four unrelated words make a good one.";
  return field({ name: "password", label, type: "password", autocomplete: "new-password", hint });
}

export type LoginOptions = {
  label: string;
  submit: string;
  email?: Field;
  loggedIn: (session: Session) => Promise<void>;
  refused?: (refusal: Refused) => boolean;
};

export function loginForm({ label, submit, email = emailField(), loggedIn, refused }: LoginOptions): HTMLFormElement {
  const password = field({
    name: "password",
    label: "Password",
    type: "password",
    autocomplete: "current-password",
  });
  // A tab of its own: this page holds what the link brought, and nothing else does.
  const forgot = h("a", { href: "#/forgot", target: "_blank", rel: "noopener" }, "Forgot your password?");
  return form({
    label,
    submit,
    fields: [email, password],
    after: h("p", { class: "after" }, forgot, h("span", { class: "hide" }, " Opens in a new tab.")),
    send: async () => loggedIn(await Session.open(email.value(), password.value())),
    ...(refused && { refused }),
  });
}
