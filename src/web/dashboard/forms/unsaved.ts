// Forms with changes that would be lost, and secrets that were not stored yet. Leaving the page asks first.
import { useEffect } from "preact/hooks";

const QUESTION = "Leave this page? What you entered, or a key you have not stored, will be lost.";

const unsaved = new Set<symbol>();

/** False if the person wants to stay. */
export function confirmLeaving(): boolean {
  // oxlint-disable-next-line no-alert -- the browser's own question also works while a modal dialog is open
  return unsaved.size === 0 || confirm(QUESTION);
}

addEventListener("beforeunload", (event) => {
  if (unsaved.size > 0) event.preventDefault();
});

/** Marks something as unsaved while `active`. */
export function useUnsaved(active: boolean): void {
  useEffect(() => {
    if (!active) return;
    const mark = Symbol("unsaved");
    unsaved.add(mark);
    return () => void unsaved.delete(mark);
  }, [active]);
}
