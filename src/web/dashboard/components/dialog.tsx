// Modal dialogs on <dialog>. Focus returns to what opened the dialog, or when that is gone to the next row, or to the
// page's heading.
import type { ComponentChildren, RefObject } from "preact";
import { useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Env } from "../../../kernel/credentials.ts";
import { env as shownEnv } from "../links.ts";
import { Button } from "./button.tsx";
import { Icon } from "./icon.tsx";
import { focusRow, rowsFrom } from "./table.tsx";
import { confirmLeaving, unsavedMarks } from "../api/unsaved.ts";

type DialogProps = {
  title: ComponentChildren;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
  /** Cannot be closed by Escape, the backdrop or the cross; the content decides. */
  locked?: boolean;
  /** The environment whose data it changes, if any: test shows the band. "both": what test and live share. */
  env?: Env | "both" | undefined;
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

/**
 * The one button of a dialog that only shows a result. It takes the focus, which a form that it replaces would lose.
 */
export function DoneButton({ onClick, children = "Done" }: { onClick: () => void; children?: string }) {
  const ref = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => ref.current?.focus(), []);
  return (
    <div class="buttons">
      <Button kind="primary" autofocus buttonRef={ref} onClick={onClick}>
        {children}
      </Button>
    </div>
  );
}

/** A form whose request is in flight: its answer, such as a new key, is shown nowhere else. */
const SENDING = "form[aria-busy]";

/** On the backdrop, which belongs to the dialog's element as its border does. */
function isOutside({ target, currentTarget, clientX: x, clientY: y }: MouseEvent): boolean {
  if (target !== currentTarget || !(target instanceof Element)) return false;
  const { left, right, top, bottom } = target.getBoundingClientRect();
  return x < left || x > right || y < top || y > bottom;
}

/** The open dialogs, the topmost last. */
const openDialogs: HTMLDialogElement[] = [];

/** Opens it, and gives the focus back when it leaves the page. */
function useModal(ref: RefObject<HTMLDialogElement>, close: () => void) {
  const state = useRef({ close, open: true, pressedOutside: false });
  state.current.close = close;
  useLayoutEffect(() => {
    const dialog = ref.current;
    const opener = document.activeElement;
    const rows = rowsFrom(opener);
    if (!dialog) return;
    dialog.showModal();
    openDialogs.push(dialog);
    focusFirst(dialog);
    // On the document: the focus is outside when what had it was replaced.
    const onKeyDown = (event: KeyboardEvent): void => {
      if (event.key !== "Escape" || event.defaultPrevented || openDialogs.at(-1) !== dialog) return;
      event.preventDefault();
      state.current.close();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => {
      state.current.open = false;
      document.removeEventListener("keydown", onKeyDown);
      openDialogs.splice(openDialogs.indexOf(dialog), 1);
      dialog.close();
      // The opener may leave the page together with the dialog.
      queueMicrotask(() => returnFocus(opener, rows));
    };
  }, []);
  return state;
}

export function Dialog({ title, onClose, children, wide = false, locked = false, env }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Forms behind the dialog lose nothing when it closes.
  const behind = useMemo(unsavedMarks, []);
  const close = (): void => {
    const isSending = ref.current?.querySelector(SENDING) != null;
    if (!locked && !isSending && confirmLeaving((mark) => !behind.has(mark))) onClose();
  };
  const state = useModal(ref, close);
  return (
    <dialog
      ref={ref}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby={id}
      {...{ closedby: "none" }}
      onCancel={(event) => event.preventDefault()}
      // Not at the end of a selection that began inside, nor before the button is up: the page would get the click.
      onMouseDown={(event) => void (state.current.pressedOutside = isOutside(event))}
      onClick={(event) => state.current.pressedOutside && isOutside(event) && close()}
      // Browsers close on a repeated Escape whatever a handler says.
      onClose={() => state.current.open && ref.current?.showModal()}
    >
      <div class="dialog-head">
        <h2 id={id} tabIndex={-1}>
          {title}
        </h2>
        {!locked && (
          <button type="button" class="button quiet square" aria-label="Close" onClick={close}>
            <Icon name="close" />
          </button>
        )}
      </div>
      {env === "test" && <p class="test-band">Test data</p>}
      {env === "both" && shownEnv.value === "test" && <p class="test-band">Applies to live and test</p>}
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}
