// Forms with changes that would be lost, and secrets that were not stored yet. Leaving the page asks first.
import { useLayoutEffect, useMemo } from "preact/hooks";

/** What is asked before something is lost. */
const QUESTIONS = {
  entered: "Discard what you entered?",
  sending: "Leave before the server has answered? A new key would be shown only here.",
  key: "Leave without storing the key? It is not shown again.",
  bulk: "Leave now? Keys that were not reached stay unchanged.",
  link: "Leave without copying the link? It is not shown again.",
} as const;
type Question = keyof typeof QUESTIONS;

const unsaved = new Map<symbol, Question>();

/** What is unsaved now. */
export const unsavedMarks = (): ReadonlySet<symbol> => new Set(unsaved.keys());

/** False if the person wants to stay. `isLost`: what leaving loses; all of it by default. */
export function confirmLeaving(isLost: (mark: symbol, question: Question) => boolean = () => true): boolean {
  const lost = [...unsaved].findLast(([mark, question]) => isLost(mark, question));
  // oxlint-disable-next-line no-alert -- the browser's own question also works while a modal dialog is open
  return lost === undefined || confirm(QUESTIONS[lost[1]]);
}

addEventListener("beforeunload", (event) => {
  if (unsaved.size > 0) event.preventDefault();
});

/** Marks something as unsaved while `active`: from the render on, before the browser handles a new address. */
export function useUnsaved(active: boolean, question: Question): void {
  const mark = useMemo(() => Symbol("unsaved"), []);
  useLayoutEffect(() => {
    if (!active) return;
    unsaved.set(mark, question);
    return () => void unsaved.delete(mark);
  }, [active, question]);
}
