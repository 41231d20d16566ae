// Asks before a change. Before one that takes something away, focus starts on Cancel; what cascades needs its name
// typed.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Env } from "../../../kernel/credentials.ts";
import { Dialog } from "../components/dialog.tsx";
import { TextField } from "./field.tsx";
import { Form, type Values } from "./form.tsx";

type ConfirmProps = {
  title: ComponentChildren;
  submit: string;
  /** "primary" for what only gives something back. */
  submitKind?: "danger" | "primary";
  children?: ComponentChildren;
  /** Fields of the request, above the buttons. */
  fields?: ComponentChildren;
  /** Text to be typed first, such as a slug. */
  typed?: string;
  /** The environment whose data it changes, if any. */
  env?: Env | "both";
  send: (values: Values) => Promise<void>;
  onClose: () => void;
};

/** Numbers may be typed as buttons show them: 1,234. */
const plain = (text: string): string => text.replaceAll(",", "").trim();

export function Confirm(props: ConfirmProps) {
  const { title, submit, submitKind = "danger", children, fields, typed, env, send, onClose } = props;
  const [text, setText] = useState("");
  const blocked = typed !== undefined && plain(text) !== plain(typed) ? "Type the text first." : null;
  return (
    <Dialog title={title} onClose={onClose} env={env}>
      {children}
      <Form
        submit={submit}
        submitKind={submitKind}
        send={send}
        watch={Boolean(fields)}
        disabled={blocked}
        onCancel={onClose}
      >
        {fields}
        {typed !== undefined && (
          <TextField
            name="typed"
            label="The text"
            labelMarkup={
              <>
                Type <bdi>{typed}</bdi> to confirm
              </>
            }
            mono
            value={text}
            onInput={setText}
          />
        )}
      </Form>
    </Dialog>
  );
}
