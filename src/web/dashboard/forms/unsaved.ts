// Forms with changes that would be lost, and secrets that were not stored yet. Leaving the page asks first.
import { useLayoutEffect, useMemo } from "preact/hooks";

const QUESTION = "Leave this page? What you entered, or a key you have not stored, will be lost.";

const unsaved = new Set<symbol>();

/** What is unsaved now. */
export const unsavedMarks = (): ReadonlySet<symbol> => new Set(unsaved);

const NOTHING: ReadonlySet<symbol> = new Set();

/** False if the person wants to stay. `kept`: what leaving does not lose. */
export function confirmLeaving(kept = NOTHING): boolean {
  // oxlint-disable-next-line no-alert -- the browser's own question also works while a modal dialog is open
  return [...unsaved].every((mark) => kept.has(mark)) || confirm(QUESTION);
}

addEventListener("beforeunload", (event) => {
  if (unsaved.size > 0) event.preventDefault();
});

/** Marks something as unsaved while `active`: from the render on, before the browser handles a new address. */
export function useUnsaved(active: boolean): void {
  const mark = useMemo(() => Symbol("unsaved"), []);
  useLayoutEffect(() => {
    if (!active) return;
    unsaved.add(mark);
    return () => void unsaved.delete(mark);
  }, [active]);
}
