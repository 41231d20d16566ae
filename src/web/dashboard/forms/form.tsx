// A form submitted by script: one request at a time, each error next to its field, the first one focused. Fields are
// plain inputs, so what was typed survives every error and every refresh of the page.
import { createContext, type ComponentChildren, type RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { problemMessage, toProblem, type Detail, type Problem } from "../api/problems.ts";
import { refreshAfter } from "../api/query.ts";
import { Button, type ButtonKind } from "../components/button.tsx";
import { useUnsaved } from "../api/unsaved.ts";

export type Values = Readonly<Record<string, string>>;

type FormState = {
  errors: ReadonlyMap<string, string>;
  busy: boolean;
  /** For fields without an input event of their own: the value has changed. */
  onChanged: (name: string) => void;
};
export const FormContext = createContext<FormState>({ errors: new Map(), busy: false, onChanged: () => {} });

type FormProps = {
  /** Its accessible name, where a page has several forms. */
  label?: string;
  submit: string;
  submitKind?: ButtonKind;
  send: (values: Values) => Promise<void>;
  /** Handles a problem itself and returns true, or leaves it to the form. */
  onProblem?: (problem: Problem) => boolean;
  children?: ComponentChildren;
  /** Closes the dialog that the form is in. */
  onCancel?: () => void;
  /** The words on its button. */
  cancel?: string;
  /** Beside the submit button. */
  actions?: ComponentChildren;
  /** Below the buttons. */
  footer?: ComponentChildren;
  /** Why it cannot be submitted. */
  disabled?: string | null;
  /** False if nothing is lost by leaving. */
  watch?: boolean;
};

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

/** Without those of a choice that is not made: they keep what was typed, for when it is made again. */
const controlsOf = (form: HTMLFormElement): Control[] =>
  [...form.elements].filter(
    (element): element is Control => "name" in element && element.name !== "" && !element.closest("form [hidden]"),
  );

/** What the fields hold by name; a checkbox that is not checked is absent. */
function valuesOf(form: HTMLFormElement): Values {
  const values: Record<string, string> = {};
  for (const control of controlsOf(form)) {
    const optional = control instanceof HTMLInputElement && /^(checkbox|radio)$/.test(control.type);
    if (optional && !control.checked) continue;
    values[control.name] = control.type === "password" ? control.value : control.value.trim();
  }
  return values;
}

/** The field that a path such as `rate_limits.0.limit` or `allowed_cidrs[1]` belongs to. */
function fieldOf(path: string, names: readonly string[]): string | undefined {
  return (
    names.find((name) => path === name) ?? names.find((name) => [".", "["].some((next) => path.startsWith(name + next)))
  );
}

/** Names the entry of a list that a path such as `rate_limits[1].limit` leads to. */
function inEntry(path: string, message: string): string {
  const index = /[.[](\d+)/.exec(path)?.[1];
  return index === undefined ? message : `: entry ${Number(index) + 1} ${message}`;
}

function placeErrors(details: readonly Detail[], names: readonly string[]) {
  const errors = new Map<string, string>();
  const unplaced: string[] = [];
  for (const { path, message } of details) {
    const name = fieldOf(path.replace("key_policy.", ""), names);
    if (name === undefined) unplaced.push(`${path} ${message}`);
    else if (!errors.has(name)) errors.set(name, inEntry(path, message));
  }
  return { errors, unplaced };
}

const NO_ERRORS: ReadonlyMap<string, string> = new Map();

/** A revealed password field has type text, so it is known by its autocomplete value. */
const isMissing = (control: Control): boolean => control.ariaRequired === "true" && control.value.trim() === "";

/** Errors by field. New ones focus the first field; one goes when its field is corrected, without moving the focus. */
function useErrors(form: RefObject<HTMLFormElement>) {
  const [{ errors, isNew }, setErrors] = useState({ errors: NO_ERRORS, isNew: false });
  useEffect(() => {
    if (isNew) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [errors]);
  return {
    errors,
    showErrors: (next: ReadonlyMap<string, string>): void => setErrors({ errors: next, isNew: true }),
    dropError: (name: string): void => {
      if (!errors.has(name)) return;
      setErrors({ errors: new Map([...errors].filter(([field]) => field !== name)), isNew: false });
    },
  };
}

function Buttons({ of, busy }: { of: FormProps; busy: boolean }) {
  const { submit, submitKind = "primary", disabled = null, onCancel, cancel = "Cancel", actions } = of;
  return (
    <div class="buttons">
      {onCancel && (
        <Button autofocus={submitKind === "danger"} busy={busy} onClick={onCancel}>
          {cancel}
        </Button>
      )}
      <Button type="submit" kind={submitKind} busy={busy} disabled={disabled}>
        {busy ? "Please wait…" : submit}
      </Button>
      {actions}
    </div>
  );
}

const show = (shown: Element | null): void => shown?.scrollIntoView({ block: "nearest" });

type Submission = Pick<FormProps, "send" | "onProblem"> & {
  showErrors: (errors: ReadonlyMap<string, string>) => void;
  onSent: () => void;
};

function useSubmit({ send, onProblem, showErrors, onSent }: Submission) {
  const [alert, setAlert] = useState("");
  const [busy, setBusy] = useState(false);
  const showProblem = (controls: readonly Control[], problem: Problem): void => {
    const names = controls.map(({ name }) => name);
    const { errors, unplaced } = placeErrors(problem.details, names);
    showErrors(errors);
    if (errors.size === 0 || unplaced.length > 0) setAlert([problemMessage(problem), ...unplaced].join(" "));
  };
  const submit = async (form: HTMLFormElement): Promise<void> => {
    setAlert("");
    const missing = controlsOf(form).filter(isMissing);
    showErrors(new Map(missing.map(({ name }) => [name, "is required"])));
    if (missing.length > 0) return;
    setBusy(true);
    try {
      await send(valuesOf(form));
      onSent();
    } catch (error) {
      const problem = toProblem(error);
      refreshAfter(problem);
      if (!onProblem?.(problem)) showProblem(controlsOf(form), problem);
    } finally {
      setBusy(false);
    }
  };
  return { alert, busy, submit };
}

export function Form(props: FormProps) {
  const { label, children, footer, watch = true } = props;
  const form = useRef<HTMLFormElement>(null);
  const { errors, showErrors, dropError } = useErrors(form);
  const [changed, setChanged] = useState(false);
  const { alert, busy, submit } = useSubmit({ ...props, showErrors, onSent: () => setChanged(false) });
  // What a request in flight makes is shown only here.
  useUnsaved(busy || (watch && changed), busy ? "sending" : "entered");
  const onChanged = (name: string): void => {
    setChanged(true);
    dropError(name);
  };
  return (
    <form
      ref={form}
      noValidate
      method="post"
      aria-label={label}
      aria-busy={busy ? "true" : undefined}
      onInput={({ target }) => onChanged(target && "name" in target ? String(target.name) : "")}
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy) void submit(event.currentTarget);
      }}
    >
      <FormContext.Provider value={{ errors, busy, onChanged }}>{children}</FormContext.Provider>
      <div role="alert" class="alert">
        {alert !== "" && <p ref={show}>{alert}</p>}
      </div>
      <Buttons of={props} busy={busy} />
      {footer}
    </form>
  );
}
