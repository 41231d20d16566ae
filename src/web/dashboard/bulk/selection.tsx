// The keys that are selected in the list, over all of its pages, and what can be done with them.
import { useState } from "preact/hooks";
import { formatNumber, plural } from "../../shared/format.ts";
import { Button } from "../components/button.tsx";
import { BulkKeys, type BulkProps } from "./dialog.tsx";
import type { BulkAction, BulkFilter } from "./run.ts";

/** Maximum number of ids in one request. */
const IDS_MAX = 500;

type SelectionProps = {
  chosen: ReadonlySet<string>;
  onChange: (chosen: ReadonlySet<string>) => void;
  /** The filters in the address; null if they cannot choose keys, or if the page has all. */
  all: BulkFilter | null;
  /** "every key that matches", or "all live keys" without filters. */
  allWords: string;
};

type Chosen = Pick<BulkProps, "action" | "filter" | "whole">;

export function SelectionBar({ chosen, onChange, all, allWords }: SelectionProps) {
  const [open, setOpen] = useState<Chosen | null>(null);
  const [whole, setWhole] = useState(false);
  const clear = (): void => {
    setWhole(false);
    onChange(new Set());
  };
  if (chosen.size === 0) return null;
  const byFilter = whole && all !== null;
  const tooMany = !byFilter && chosen.size > IDS_MAX ? `At most ${formatNumber(IDS_MAX)} keys at once.` : null;
  // What is chosen now: the list changes while the action runs.
  const ask = (action: BulkAction) => (): void =>
    setOpen({ action, filter: byFilter ? all : { ids: [...chosen] }, whole: byFilter });
  return (
    <div class="selection-bar" role="region" aria-label="Selection">
      <span role="status">{byFilter ? `Selected: ${allWords}` : `${plural(chosen.size, "key")} selected`}</span>
      {all !== null && !whole && (
        <Button kind="quiet" onClick={() => setWhole(true)}>
          Select {allWords}
        </Button>
      )}
      <Button kind="quiet" onClick={clear}>
        Clear selection
      </Button>
      <Button needs="admin" disabled={tooMany} onClick={ask("disable")}>
        Disable selected
      </Button>
      <Button needs="admin" disabled={tooMany} onClick={ask("revoke")}>
        Revoke selected
      </Button>
      {open && (
        <BulkKeys
          {...open}
          onClose={() => setOpen(null)}
          onDone={() => {
            setOpen(null);
            clear();
          }}
        />
      )}
    </div>
  );
}
