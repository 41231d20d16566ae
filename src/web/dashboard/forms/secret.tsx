// The one time a secret is shown. The dialog cannot be closed before the secret was copied, downloaded or confirmed;
// the text is in no attribute, storage or live region, and is gone with the dialog.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Env } from "../../../kernel/credentials.ts";
import { Button, type ButtonKind } from "../components/button.tsx";
import { CopyButton } from "../components/copy.tsx";
import { Dialog } from "../components/dialog.tsx";
import { download } from "../components/download.ts";
import { CheckField } from "./field.tsx";
import { useUnsaved } from "../api/unsaved.ts";

const MASK = "•".repeat(24);

type SecretProps = {
  secret: string;
  /** Its name in an .env file. */
  variable: string;
  onStored?: () => void;
  /** For the dialog's next step: copying. */
  copyKind?: ButtonKind;
};

/** The masked text with its buttons. */
export function Secret({ secret, variable, onStored, copyKind = "plain" }: SecretProps) {
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
        <CopyButton
          text={secret}
          kind={copyKind}
          source={selectable}
          autofocus
          {...(onStored && { onCopied: onStored })}
        />
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
      <p>This is the only time the key is shown: Keyrack stores only its hash.</p>
      {children}
      <Secret
        secret={secret}
        variable={variable}
        onStored={() => setStored(true)}
        copyKind={stored ? "plain" : "primary"}
      />
      <CheckField label="I have stored it" checked={stored} onChange={setStored} />
      <div class="buttons">
        <Button
          kind={stored ? "primary" : "plain"}
          disabled={stored ? null : "Copy or download the key first, or confirm that you stored it."}
          onClick={onDone}
        >
          Done
        </Button>
      </div>
    </Dialog>
  );
}
