// Pages of a list by cursor. The cursor is in the address; the cursors before it are remembered here, so a page that
// was opened by its address goes back to the first one.
import { useLayoutEffect, useRef } from "preact/hooks";
import { formatNumber, plural } from "../../shared/format.ts";
import { onForget } from "../api/session.ts";
import { param, setParams } from "../links.ts";
import { Button } from "./button.tsx";
import { focusRow } from "./table.tsx";

const SIZES = [25, 50, 100, 200] as const;
const DEFAULT_SIZE = 50;

/** Cursor → the one of the page before it. */
const before = new Map<string, string>();
onForget(() => before.clear());
const REMEMBERED_MAX = 2_000;

/** `max`: at most half of the longest page where a page has two lists. */
export const pageSize = (max: number = SIZES[3]): number =>
  Math.min(max, SIZES.find((size) => String(size) === param("limit")) ?? DEFAULT_SIZE);

/** Rows of one list of a page that has two. */
export const HALF_MAX = 100;

/** The cursor of the page in the address; undefined for the first. `name`: where a page has several lists. */
export const pageCursor = (name = "after"): string | undefined => param(name) || undefined;

/** The cursor of the page after a list that ends with its last id. */
export function nextCursor({
  data,
  has_more,
}: {
  data: readonly { id: string }[];
  has_more?: true | undefined;
}): string | null {
  return has_more ? (data.at(-1)?.id ?? null) : null;
}

type PagerProps = {
  /** The parameter of the address that has the cursor. */
  name?: string;
  /** The cursor of the next page; null at the end. */
  next: string | null;
  /** How many rows are shown. */
  shown: number;
  /** What one row is: "key". */
  what: string;
  /** How many there are on all pages, if that is known. */
  total?: number | undefined;
  /** The longest page. */
  max?: number;
};

/** A button was pressed, and the page that it opens is not there yet. */
let isTurning = false;

/** Shows a new page from its first row, with the focus there: the pager is below the window then. */
function useFirstRow() {
  const pager = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    // An inert list is that of the query before. When the page arrives, its cursor renders this again.
    if (!isTurning || pager.current?.closest("[inert]")) return;
    isTurning = false;
    const list = pager.current?.parentElement?.querySelector(":scope > .table-scroll");
    list?.scrollIntoView();
    const focused = document.activeElement;
    if (focused === document.body || pager.current?.contains(focused))
      focusRow([...(list?.querySelectorAll("[data-row]") ?? [])]);
  });
  return pager;
}

export function Pager({ name = "after", next, shown, what, total, max }: PagerProps) {
  const at = param(name);
  const isOnly = at === "" && next === null && param("limit") === "";
  const pager = useFirstRow();
  const back = before.get(at);
  const forward = (): void => {
    // The page may be on its way already.
    if (next === null || next === at) return;
    isTurning = true;
    if (before.size >= REMEMBERED_MAX) before.clear();
    before.set(next, at);
    setParams({ [name]: next });
  };
  return (
    <nav ref={pager} class="pager" aria-label={`Pages of ${what}s`}>
      <span class="muted small" role="status">
        {isOnly ? plural(shown, what) : `${plural(shown, what)} on this page`}
        {!isOnly && total !== undefined && total > shown && `, ${formatNumber(total)} in all`}
      </span>
      {!isOnly && (
        <>
          <label class="small">
            Rows{" "}
            <select onChange={(event) => setParams({ limit: event.currentTarget.value, [name]: null })}>
              {SIZES.filter((size) => size <= (max ?? size)).map((size) => (
                <option key={size} value={size} selected={size === pageSize(max)}>
                  {size}
                </option>
              ))}
            </select>
          </label>
          <Button
            icon="left"
            disabled={at === "" ? "This is the first page." : null}
            onClick={() => {
              isTurning = true;
              setParams({ [name]: back ?? null });
            }}
          >
            {at !== "" && back === undefined ? "First page" : "Previous page"}
          </Button>
          <Button iconAfter="right" disabled={next === null ? "This is the last page." : null} onClick={forward}>
            Next page
          </Button>
        </>
      )}
    </nav>
  );
}
