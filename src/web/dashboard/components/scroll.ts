// Back and Forward lead to the place on a page where it was left. The browser's own restoration comes before a list has
// been loaded, so each entry of the history gets a number, and the position is restored as the page grows.
import { onForget } from "../api/session.ts";

type Spot = { y: number; row: string | null };
/** What each entry of the history keeps: its number, and where the others were left, for a page that is reloaded. */
type Entry = { entry: number; spots: Map<number, Spot> };

const REMEMBERED_MAX = 100;
/** How long a list may take to load. */
const LOADING_MS = 5_000;
const INPUTS = ["wheel", "touchstart", "pointerdown", "keydown"] as const;

history.scrollRestoration = "manual";
/** Not the numbers of this page before it was reloaded. */
let newest = Date.now();
const first = history.state as Partial<Entry> | null;
const spots: Entry["spots"] = first?.spots ?? new Map();
let entry = first?.entry ?? newest;
let returned = false;
let stop = (): void => {};

const keep = (): void => history.replaceState({ entry, spots }, "");
keep();
onForget(() => {
  spots.clear();
  keep();
});

/** Remembers where the page is left. To be called before another one is rendered. */
export function leaveEntry(): void {
  const row = document.activeElement?.closest<HTMLElement>("[data-row]")?.dataset.row ?? null;
  spots.delete(entry);
  spots.set(entry, { y: scrollY, row });
  const [oldest] = spots.keys();
  if (spots.size > REMEMBERED_MAX && oldest !== undefined) spots.delete(oldest);
}

/** Restores the position of an entry that was seen before, and numbers a new one. */
export function enterEntry(): void {
  stop();
  const known = (history.state as Partial<Entry> | null)?.entry;
  const spot = known === undefined ? undefined : spots.get(known);
  entry = known ?? ++newest;
  keep();
  returned = spot !== undefined;
  if (spot) restore(spot);
}

/** Until the row is there again, a person scrolls or types, or loading takes too long. */
function restore({ y, row }: Spot): void {
  const observer = new ResizeObserver(() => {
    if (document.documentElement.scrollHeight - innerHeight < y) return;
    scrollTo(0, y);
    const link = row === null ? null : document.querySelector<HTMLElement>(`[data-row="${CSS.escape(row)}"] a[href]`);
    link?.focus({ preventScroll: true });
    if (link || row === null) stop();
  });
  const timer = setTimeout(() => stop(), LOADING_MS);
  stop = (): void => {
    observer.disconnect();
    clearTimeout(timer);
    for (const input of INPUTS) removeEventListener(input, stop);
  };
  for (const input of INPUTS) addEventListener(input, stop);
  observer.observe(document.body);
}

/** Focuses the heading of a page that opens; after Back the page stays where it was left, with the focus in its row. */
export function focusHeading(heading: HTMLElement | null): void {
  if (returned && document.activeElement?.closest("[data-row]")) return;
  heading?.focus({ preventScroll: returned });
}
