// Labelled inputs with hint and error. Both describe the input, so that screen readers announce them with it.
import type { ComponentChildren, InputHTMLAttributes } from "preact";
import { useContext, useId, useState } from "preact/hooks";
import { fieldMessage } from "../api/problems.ts";
import { FormContext } from "./form.tsx";

type FieldProps = {
  /** Name of the API's field: error details refer to it. */
  name: string;
  label: string;
  /** Shown instead of the label, such as with the text of a customer, which has to be isolated. */
  labelMarkup?: ComponentChildren;
  hint?: ComponentChildren;
  optional?: boolean;
};

type Shell = FieldProps & {
  control: (attributes: ControlAttributes) => ComponentChildren;
  after?: ComponentChildren;
  /** It always has a value, so its label does not call it optional. */
  isChoice?: boolean;
};
type ControlAttributes = {
  id: string;
  name: string;
  "aria-required": "true" | undefined;
  "aria-invalid": "true" | undefined;
  "aria-describedby": string | undefined;
};

type Notes = { id: string; label: string; error: string | undefined; hint: ComponentChildren };

/** Error and hint of a field, which refers to them by `<id>-error` and `<id>-hint`. */
export function FieldNotes({ id, label, error, hint }: Notes) {
  return (
    <>
      {error !== undefined && (
        <p id={`${id}-error`} class="error">
          {fieldMessage(label, error)}
        </p>
      )}
      {hint !== undefined && (
        <p id={`${id}-hint`} class="hint">
          {hint}
        </p>
      )}
    </>
  );
}

/** The notes that belong to a field, for its `aria-describedby`. */
export function describedBy(id: string, error: string | undefined, hint: ComponentChildren): string | undefined {
  const parts = [error !== undefined && `${id}-error`, hint !== undefined && `${id}-hint`];
  return parts.filter(Boolean).join(" ") || undefined;
}

function FieldShell(props: Shell) {
  const { name, label, labelMarkup = label, hint, optional = false, control, after, isChoice = false } = props;
  const id = useId();
  const error = useContext(FormContext).errors.get(name);
  return (
    <div class="field">
      <label for={id}>
        {labelMarkup}
        {optional && !isChoice && <span class="muted"> (optional)</span>}
      </label>
      <div class="control">
        {control({
          id,
          name,
          "aria-required": optional ? undefined : "true",
          "aria-invalid": error === undefined ? undefined : "true",
          "aria-describedby": describedBy(id, error, hint),
        })}
        {after}
      </div>
      <FieldNotes id={id} label={label} error={error} hint={hint} />
    </div>
  );
}

type TextFieldProps = FieldProps & {
  type?: "email" | "text" | "date" | "number" | "search";
  autocomplete?: string;
  value?: string;
  mono?: boolean;
  placeholder?: string;
  onInput?: (value: string) => void;
  inputMode?: InputHTMLAttributes["inputMode"];
  /** For people who may see the value but not change it. */
  readOnly?: boolean;
};

export function TextField(props: TextFieldProps) {
  const { type = "text", autocomplete = "off", value, mono = false, onInput } = props;
  const plain = type === "email" || mono;
  return (
    <FieldShell
      {...props}
      control={(attributes) => (
        <input
          {...attributes}
          type={type}
          class={mono ? "mono" : undefined}
          // oxlint-disable-next-line jsx-a11y/autocomplete-valid -- the values are the caller's
          autocomplete={autocomplete}
          placeholder={props.placeholder}
          inputMode={props.inputMode}
          readOnly={props.readOnly}
          {...(onInput ? { value: value ?? "" } : { defaultValue: value ?? "" })}
          {...(plain && { autocapitalize: "none", spellcheck: false })}
          onInput={onInput && ((event) => onInput(event.currentTarget.value))}
        />
      )}
    />
  );
}

/** The button that shows the password replaces a second field for confirmation. */
export function PasswordField(
  props: FieldProps & { autocomplete: "current-password" | "new-password"; autofocus?: boolean },
) {
  const [shown, setShown] = useState(false);
  return (
    <FieldShell
      {...props}
      control={(attributes) => (
        <input
          {...attributes}
          type={shown ? "text" : "password"}
          data-autofocus={props.autofocus ? "" : undefined}
          autocomplete={props.autocomplete}
          autocapitalize="none"
          spellcheck={false}
        />
      )}
      after={
        <button
          type="button"
          class="reveal"
          aria-label={`${shown ? "Hide" : "Show"}: ${props.label}`}
          onClick={() => setShown(!shown)}
        >
          {shown ? "Hide" : "Show"}
        </button>
      }
    />
  );
}

export type Option = readonly [value: string, label: string];

export function SelectField(
  props: FieldProps & { options: readonly Option[]; value?: string; onChange?: (value: string) => void },
) {
  const { options, value, onChange } = props;
  return (
    <FieldShell
      {...props}
      isChoice
      control={(attributes) => (
        <select {...attributes} onChange={onChange && ((event) => onChange(event.currentTarget.value))}>
          {options.map(([option, label]) => (
            <option key={option} value={option} selected={option === value}>
              {label}
            </option>
          ))}
        </select>
      )}
    />
  );
}

export function TextAreaField(props: FieldProps & { value?: string; rows?: number; mono?: boolean }) {
  return (
    <FieldShell
      {...props}
      control={(attributes) => (
        <textarea
          {...attributes}
          class={props.mono ? "mono" : undefined}
          rows={props.rows ?? 3}
          defaultValue={props.value ?? ""}
          spellcheck={false}
        />
      )}
    />
  );
}

type CheckProps = {
  name?: string;
  label: ComponentChildren;
  checked?: boolean;
  onChange?: (checked: boolean) => void;
};

export function CheckField({ name = "", label, checked = false, onChange }: CheckProps) {
  const controlled = onChange ? { checked } : { defaultChecked: checked };
  return (
    <label class="check">
      <input
        type="checkbox"
        name={name}
        value="true"
        {...controlled}
        onChange={onChange && ((event) => onChange(event.currentTarget.checked))}
      />
      <span>{label}</span>
    </label>
  );
}

type ChoiceProps<T extends string> = {
  legend: string;
  name?: string;
  options: readonly (readonly [value: T, label: string])[];
  value: T;
  onChange: (value: T) => void;
};

/** A few alternatives side by side. */
export function Choice<T extends string>({ legend, name, options, value, onChange }: ChoiceProps<T>) {
  const group = useId();
  return (
    <fieldset class="choice">
      <legend class="hide">{legend}</legend>
      {options.map(([option, label]) => (
        <label key={option}>
          <input
            type="radio"
            name={name ?? group}
            value={option}
            checked={option === value}
            onChange={() => onChange(option)}
          />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}
