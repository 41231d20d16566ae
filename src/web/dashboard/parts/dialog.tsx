// Modal dialogs on <dialog>. Focus returns to what opened the dialog, or when that is gone to the next row, or to the
// page's heading.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import type { Env } from "../../../kernel/credentials.ts";
import { Button } from "./button.tsx";
import { Icon } from "./icon.tsx";
import { focusRow, rowsFrom } from "./table.tsx";
import { confirmLeaving } from "../forms/unsaved.ts";

type DialogProps = {
  title: ComponentChildren;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
  /** Cannot be closed by Escape, the backdrop or the cross; the content decides. */
  locked?: boolean;
  /** The environment whose data it changes, if any: test shows the band. */
  env?: Env | undefined;
};

function focusFirst(dialog: HTMLDialogElement): void {
  const wishes = ["[data-autofocus]", "input:not([type=hidden]), select, textarea", "h2"];
  const found = wishes.map((selector) => dialog.querySelector<HTMLElement>(selector)).find((element) => element);
  found?.focus();
}

function returnFocus(opener: Element | null, rows: readonly Element[]): void {
  if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
  else focusRow(rows);
}

/** The one button of a dialog that only shows a result. */
export function DoneButton({ onClick, children = "Done" }: { onClick: () => void; children?: string }) {
  return (
    <div class="buttons">
      <Button kind="primary" autofocus onClick={onClick}>
        {children}
      </Button>
    </div>
  );
}

export function Dialog({ title, onClose, children, wide = false, locked = false, env }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  const state = useRef({ locked, open: true });
  state.current.locked = locked;
  useLayoutEffect(() => {
    const dialog = ref.current;
    const opener = document.activeElement;
    const rows = rowsFrom(opener);
    if (!dialog) return;
    dialog.showModal();
    focusFirst(dialog);
    return () => {
      state.current.open = false;
      dialog.close();
      // The opener may leave the page together with the dialog.
      queueMicrotask(() => returnFocus(opener, rows));
    };
  }, []);
  const close = (): void => {
    if (!locked && confirmLeaving()) onClose();
  };
  return (
    <dialog
      ref={ref}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby={id}
      {...{ closedby: "none" }}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented) return;
        event.preventDefault();
        close();
      }}
      onCancel={(event) => event.preventDefault()}
      // Browsers close on a repeated Escape whatever a handler says.
      onClose={() => state.current.open && ref.current?.showModal()}
    >
      <header>
        <h2 id={id} tabIndex={-1}>
          {title}
        </h2>
        {!locked && (
          <button type="button" class="button quiet square" aria-label="Close" onClick={close}>
            <Icon name="close" />
          </button>
        )}
      </header>
      {env === "test" && <p class="test-band">Test data</p>}
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}
