// Modal dialogs on <dialog>. Focus returns to what opened the dialog, or to the page's heading when that is gone.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { env } from "../here.ts";
import { Button } from "./button.tsx";
import { Icon } from "./icon.tsx";
import { confirmLeaving } from "../forms/unsaved.ts";

export type DialogProps = {
  title: ComponentChildren;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
  /** Cannot be closed by Escape, the backdrop or the cross; the content decides. */
  locked?: boolean;
  /** Shows the test band: the dialog changes data of the environment. */
  changes?: boolean;
};

function focusFirst(dialog: HTMLDialogElement): void {
  const wishes = ["[data-autofocus]", "input:not([type=hidden]), select, textarea", "h2"];
  const found = wishes.map((selector) => dialog.querySelector<HTMLElement>(selector)).find((element) => element);
  found?.focus();
}

function returnFocus(opener: Element | null): void {
  const target = opener instanceof HTMLElement && opener.isConnected ? opener : document.querySelector("h1");
  target?.focus();
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

export function Dialog({ title, onClose, children, wide = false, locked = false, changes = false }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  const state = useRef({ locked, open: true });
  state.current.locked = locked;
  useLayoutEffect(() => {
    const dialog = ref.current;
    const opener = document.activeElement;
    if (!dialog) return;
    dialog.showModal();
    focusFirst(dialog);
    return () => {
      state.current.open = false;
      dialog.close();
      // The opener may leave the page together with the dialog.
      queueMicrotask(() => returnFocus(opener));
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
      {changes && env.value === "test" && <p class="test-band">Test data</p>}
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}
