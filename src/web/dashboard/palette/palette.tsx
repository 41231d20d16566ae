// The command palette: jump to pages, workspaces and records by typing.
import { signal } from "@preact/signals";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { plural } from "../../shared/format.ts";
import { onForget } from "../api/session.ts";
import { Announcement } from "../forms/announcement.tsx";
import { isMac } from "../components/copy.tsx";
import { Dialog } from "../components/dialog.tsx";
import { SEARCH_HINT } from "../components/empty.tsx";
import { Icon } from "../components/icon.tsx";
import { go } from "../routes.ts";
import { credentialNote, keyToLookUp } from "../forms/credential-note.ts";
import type { NavItem } from "../shell/nav.tsx";
import { localItems, lookUpItems, remoteItems, type PaletteItem } from "./items.ts";
import { mergeResults } from "./results.ts";

const DEBOUNCE_MS = 150;
const LOOK_UP_MS = 10_000;

export const paletteOpen = signal(false);
onForget(() => void (paletteOpen.value = false));

/** Records that match, a moment after typing stopped; older questions are aborted. Null until they are known. */
function useRecords(text: string, isCredential: boolean): readonly PaletteItem[] | null {
  const [found, setFound] = useState<readonly PaletteItem[] | null>(null);
  // A pasted key is sent once, whatever else is typed before and after it.
  const lookedUp = useRef(new Map<string, Promise<PaletteItem[]>>());
  useEffect(() => {
    setFound(null);
    const key = keyToLookUp(text);
    if (isCredential && key === null) return;
    const abort = new AbortController();
    const ask = (): void => {
      const once = (pasted: string): Promise<PaletteItem[]> =>
        lookedUp.current.get(pasted) ?? lookUpItems(pasted, AbortSignal.timeout(LOOK_UP_MS));
      const items = key === null ? remoteItems(text, abort.signal) : once(key);
      if (key !== null) lookedUp.current.set(key, items);
      items.then(
        (list) => abort.signal.aborted || setFound(list),
        () => abort.signal.aborted || setFound([]),
      );
    };
    const timer = setTimeout(ask, DEBOUNCE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, isCredential]);
  return found;
}

/** The words for the results, which are also announced. */
function words(text: string, items: readonly PaletteItem[], isKnown: boolean): string {
  const note = credentialNote(text);
  if (note !== null && keyToLookUp(text) === null) return note;
  if (!isKnown && text !== "") return "Searching…";
  const count = items.filter(({ isWholeList }) => !isWholeList).length;
  if (items.length > 0) return `${count < items.length ? "At least " : ""}${plural(count, "result")}`;
  return note === null ? `Nothing found. ${SEARCH_HINT}` : "No key of this workspace";
}

type ResultsProps = {
  id: string;
  items: readonly PaletteItem[];
  at: number;
  point: (at: number) => void;
  choose: (item: PaletteItem) => void;
};

function Results({ id, items, at, point, choose }: ResultsProps) {
  useEffect(() => document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);
  const numbered = items.map((item, i) => ({ item, i }));
  return (
    <div id={id} role="listbox" aria-label="Results" class="palette-results">
      {[...Map.groupBy(numbered, ({ item }) => item.group)].map(([group, members]) => (
        <div key={group} role="group" aria-label={group}>
          <div class="palette-group muted small" aria-hidden="true">
            {group}
          </div>
          {members.map(({ item, i }) => (
            <div
              key={item.href + item.label}
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === at}
              aria-disabled={item.disabled ? "true" : undefined}
              onMouseMove={() => point(i)}
              onClick={() => choose(item)}
            >
              <bdi class="grow">{item.label}</bdi>
              <bdi class="muted small">{item.disabled ?? item.hint}</bdi>
            </div>
          ))}
        </div>
      ))}
    </div>
  );
}

/** Where a key leads in the list; undefined for other keys. */
function indexAfter(key: string, at: number, last: number): number | undefined {
  const next = { ArrowDown: at === last ? 0 : at + 1, ArrowUp: at === 0 ? last : at - 1, Home: 0, End: last }[key];
  return next === undefined ? undefined : Math.max(0, next);
}

function Search({ pages }: { pages: readonly NavItem[] }) {
  const id = useId();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const text = typed.trim();
  const isCredential = credentialNote(text) !== null;
  const records = useRecords(text, isCredential);
  const local = isCredential ? [] : localItems(text, pages);
  const items = mergeResults(local, records ?? []);
  const choose = (item: PaletteItem): void => {
    if (item.disabled) return;
    paletteOpen.value = false;
    go(item.href);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const next = indexAfter(event.key, at, items.length - 1);
    const chosen = items[at];
    if (next !== undefined) setAt(next);
    else if (event.key === "Enter" && chosen) choose(chosen);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <input
        type="text"
        role="combobox"
        class="plain"
        aria-label="Search or jump to"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={items[at] ? `${id}-${at}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder="Pages, keys, tenants, projects, actions"
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <Results id={id} items={items} at={at} point={setAt} choose={choose} />
      <Announcement words={words(text, items, records !== null)} isShown />
    </>
  );
}

export function Palette({ pages }: { pages: readonly NavItem[] }) {
  if (!paletteOpen.value) return null;
  return (
    <Dialog title="Command palette" onClose={() => void (paletteOpen.value = false)}>
      <Search pages={pages} />
    </Dialog>
  );
}

export function SearchButton() {
  return (
    <button type="button" class="button search-button" onClick={() => void (paletteOpen.value = true)}>
      <Icon name="search" />
      <span>Search</span>
      <kbd aria-hidden="true">{isMac() ? "⌘ K" : "Ctrl K"}</kbd>
    </button>
  );
}
