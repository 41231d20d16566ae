// The one time a secret is shown. The dialog cannot be closed before the secret was copied, downloaded or confirmed;
// the text is in no attribute, storage or live region, and is gone with the dialog.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Env } from "../../../kernel/credentials.ts";
import { Button } from "./button.tsx";
import { CopyButton } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";
import { download } from "./download.ts";
import { CheckField } from "../forms/field.tsx";
import { useUnsaved } from "../forms/unsaved.ts";

const MASK = "•".repeat(24);

type SecretProps = {
  secret: string;
  /** Its name in an .env file. */
  variable: string;
  onStored?: () => void;
};

/** The masked text with its buttons. */
export function Secret({ secret, variable, onStored }: SecretProps) {
  const [shown, setShown] = useState(false);
  const ref = useRef<HTMLElement>(null);
  const [prefix = ""] = /^[^_]*_(?:live|test)_/.exec(secret) ?? [];
  const selectable = (): Element | null => {
    setShown(true);
    return ref.current;
  };
  return (
    <div class="secret">
      <code ref={ref} class="secret-text">
        {shown ? secret : prefix + MASK}
      </code>
      <div class="buttons">
        <Button pressed={shown} onClick={() => setShown(!shown)}>
          Show
        </Button>
        <CopyButton text={secret} source={selectable} autofocus {...(onStored && { onCopied: onStored })} />
        <Button
          icon="download"
          onClick={() => {
            download(`${variable.toLowerCase()}.env`, [`${variable}=${secret}\n`]);
            onStored?.();
          }}
        >
          Download .env
        </Button>
      </div>
    </div>
  );
}

type SecretDialogProps = {
  secret: string;
  variable: string;
  env: Env;
  /** What the secret is and what to do with it. */
  children?: ComponentChildren;
  onDone: () => void;
};

export function SecretDialog({ secret, variable, env, children, onDone }: SecretDialogProps) {
  const [stored, setStored] = useState(false);
  useUnsaved(!stored, "key");
  return (
    <Dialog title="Save this key now" onClose={onDone} locked env={env}>
      <p>This is the only time the key is shown.</p>
      {children}
      <Secret secret={secret} variable={variable} onStored={() => setStored(true)} />
      <CheckField label="I have stored it" checked={stored} onChange={setStored} />
      <div class="buttons">
        <Button
          kind="primary"
          disabled={stored ? null : "Copy or download the key first, or confirm that you stored it."}
          onClick={onDone}
        >
          Done
        </Button>
      </div>
    </Dialog>
  );
}
