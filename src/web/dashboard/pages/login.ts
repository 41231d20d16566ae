// The log-in form and the fields it shares with other pages.
import { h } from "../../shared/dom.ts";
import { Session } from "../api.ts";
import { field, type Field } from "../components/field.ts";
import { form } from "../components/form.ts";

export function emailField(): Field {
  return field({ name: "email", label: "Email address", type: "email", autocomplete: "username" });
}

export function newPasswordField(label: string): Field {
  const hint = "At least 12 characters. Four unrelated words make a good password.";
  return field({ name: "password", label, type: "password", autocomplete: "new-password", hint });
}

export type LoginOptions = {
  label: string;
  submit: string;
  email?: Field;
  onLogin: (session: Session) => Promise<void>;
};

export function loginForm({ label, submit, email = emailField(), onLogin }: LoginOptions): HTMLFormElement {
  const password = field({
    name: "password",
    label: "Password",
    type: "password",
    autocomplete: "current-password",
  });
  // In a new tab: the link's token exists only in this page.
  const forgot = h("a", { href: "#/forgot", target: "_blank", rel: "noopener" }, "Forgot your password?");
  return form({
    label,
    submit,
    fields: [email, password],
    footer: h("p", { class: "after" }, forgot, h("span", { class: "hide" }, " Opens in a new tab.")),
    send: async () => onLogin(await Session.open(email.value(), password.value())),
  });
}
