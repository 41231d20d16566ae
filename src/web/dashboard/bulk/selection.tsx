// The keys that are selected in the list, over all of its pages, and what can be done with them.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatNumber, plural } from "../../shared/format.ts";
import { Button } from "../components/button.tsx";
import { useHeightProperty } from "../shell/height.ts";
import { BulkKeys, WORDS, type BulkProps } from "./dialog.tsx";
import type { BulkAction, BulkFilter } from "./run.ts";

/** Maximum number of ids in one request. */
const IDS_MAX = 500;

type SelectionProps = {
  chosen: ReadonlySet<string>;
  /** Chosen by filters instead of one by one. */
  whole: boolean;
  onWhole: () => void;
  onClear: () => void;
  /** The filters in the address; null if they cannot choose keys, or if the page has all. */
  all: BulkFilter | null;
  /** "every key that matches", or "all live keys" without filters. */
  allWords: string;
  onAct: (of: Chosen) => void;
};

type Chosen = Pick<BulkProps, "action" | "filter" | "whole">;

/** What is selected in a list, until its filters change. */
export function useSelection(filters: string) {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [whole, setWhole] = useState(false);
  // A change of one row ends the selection by filters, so that no action reaches a key that is not ticked.
  const select = (chosen: ReadonlySet<string>): void => {
    setSelected(chosen);
    setWhole(false);
  };
  const clear = (): void => select(new Set());
  useLayoutEffect(clear, [filters]);
  return { selected, whole, select, selectWhole: () => setWhole(true), clear };
}

/** The dialog of a bulk action, for the list to hold: the bar goes with the filters, which may change during a run. */
export function useBulk(onDone: () => void) {
  const [of, setOf] = useState<Chosen | null>(null);
  const onClose = (): void => setOf(null);
  const finish = (): void => {
    onClose();
    onDone();
  };
  return { act: setOf, dialog: of && <BulkKeys {...of} onClose={onClose} onDone={finish} /> };
}

export function SelectionBar({ chosen, whole, onWhole, onClear, all, allWords, onAct }: SelectionProps) {
  const clear = useRef<HTMLButtonElement>(null);
  const bar = useHeightProperty<HTMLDivElement>("--bar");
  const byFilter = whole && all !== null;
  const tooMany = !byFilter && chosen.size > IDS_MAX ? `At most ${formatNumber(IDS_MAX)} keys at once.` : null;
  // What is chosen now: the list changes while the action runs.
  const ask = (action: BulkAction) => (): void =>
    onAct({ action, filter: byFilter ? all : { ids: [...chosen] }, whole: byFilter });
  return (
    <div ref={bar} class="selection-bar" role="region" aria-label="Selection">
      <div class="selection">
        <span role="status">{byFilter ? `Selected: ${allWords}` : `${plural(chosen.size, "key")} selected`}</span>
        {all !== null && !whole && (
          <Button
            kind="quiet"
            onClick={() => {
              onWhole();
              clear.current?.focus(); // this button goes
            }}
          >
            Select {allWords}
          </Button>
        )}
      </div>
      <Button kind="quiet" icon="close" buttonRef={clear} onClick={onClear}>
        Clear selection
      </Button>
      {(["disable", "revoke"] as const).map((action) => (
        <Button key={action} needs="admin" disabled={tooMany} onClick={ask(action)}>
          {/* On a phone the verb is enough (phone.css). */}
          {WORDS[action].verb} <span>selected</span>
        </Button>
      ))}
    </div>
  );
}
