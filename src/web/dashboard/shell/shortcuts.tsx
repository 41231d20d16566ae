// Keyboard shortcuts. Single keys work only while nothing is being typed, and can be turned off.
import { signal } from "@preact/signals";
import { Fragment } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { hrefTo } from "../links.ts";
import { Dialog } from "../components/dialog.tsx";
import { isPlainKey } from "../components/keyboard.ts";
import { ROW_CONTROL } from "../components/table.tsx";
import { go } from "../routes.ts";
import { paletteOpen } from "../palette/palette.tsx";
import { shortcutsOn } from "./shortcut-setting.ts";

const JUMPS: Record<string, string> = {
  h: "home",
  k: "keys",
  t: "tenants",
  p: "projects",
  u: "usage",
  f: "fleet",
  l: "leaks",
  a: "audit",
};
const JUMP_MS = 1_000;

const listOpen = signal(false);
let jumpUntil = 0;

const TYPED_INTO = "input:not([type=checkbox], [type=radio]), textarea, select";

const isTyping = (target: EventTarget | undefined): boolean =>
  target instanceof HTMLElement && target.matches(TYPED_INTO);

/**
 * The path leads into the preview of the portal, whose fields and dialogs the document does not see. In a menu, letters
 * find its items.
 */
const isElsewhere = (path: readonly EventTarget[]): boolean =>
  isTyping(path[0]) ||
  path.some((each) => each instanceof HTMLDialogElement || (each instanceof HTMLElement && each.popover !== null));

/** To the next or the previous row of the page's tables that has something to focus. */
function moveRow(step: 1 | -1): void {
  const rows = [...document.querySelectorAll("main [data-row]")].filter((row) => row.querySelector(ROW_CONTROL));
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  rows[at < 0 && step < 0 ? rows.length - 1 : at + step]?.querySelector<HTMLElement>(ROW_CONTROL)?.focus();
}

/** The button of the page's head, or of a list that is empty. */
function create(): void {
  document.querySelector<HTMLElement>(":is(.page-head, .empty) .button.primary")?.click();
}

const ACTIONS: Record<string, () => void> = {
  "/": () => void (paletteOpen.value = true),
  "?": () => void (listOpen.value = true),
  c: create,
  j: () => moveRow(1),
  k: () => moveRow(-1),
  g: () => void (jumpUntil = performance.now() + JUMP_MS),
};

function onKeyDown(event: KeyboardEvent): void {
  const { key, ctrlKey, metaKey } = event;
  const modal = document.querySelector("dialog[open]");
  if ((ctrlKey || metaKey) && key.toLowerCase() === "k") {
    event.preventDefault();
    if (!modal) paletteOpen.value = true;
    return;
  }
  if (!shortcutsOn.value || !isPlainKey(event) || modal || isElsewhere(event.composedPath())) return;
  const page = performance.now() < jumpUntil ? JUMPS[key] : undefined;
  jumpUntil = 0;
  const act = page === undefined ? ACTIONS[key] : () => go(hrefTo(page));
  if (!act) return;
  event.preventDefault();
  act();
}

/** Keys of one row are pressed one after the other. */
const LISTED: readonly (readonly [keys: readonly string[], what: string])[] = [
  [["Ctrl K"], "Open the command palette (⌘ K on a Mac)"],
  [["/"], "Search"],
  ...Object.entries(JUMPS).map(
    ([key, page]) => [["g", key], `Go to ${page.charAt(0).toUpperCase()}${page.slice(1)}`] as const,
  ),
  [["c"], "Create on this page"],
  [["j"], "Next row"],
  [["k"], "Previous row"],
  [["→"], "Along the row, to exact times (← back)"],
  [["?"], "This list"],
];

export function Shortcuts() {
  // Not after the paint: a key that is pressed as soon as the page shows would be lost.
  useLayoutEffect(() => {
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
  if (!listOpen.value) return null;
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => void (listOpen.value = false)}>
      <dl class="facts">
        {LISTED.map(([keys, what]) => (
          <div key={what}>
            <dt>
              {keys.map((key, i) => (
                <Fragment key={key}>
                  {i > 0 && " then "}
                  <kbd>{key}</kbd>
                </Fragment>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p class="muted small">Single keys can be turned off under Account.</p>
    </Dialog>
  );
}
