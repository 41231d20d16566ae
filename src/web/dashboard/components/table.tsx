// A table of records. On a phone every row becomes a card with the column's name beside each value.
import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { focusPage, isPlainKey, useFocusAfter } from "./keyboard.ts";
import { ShortTimes } from "./time.tsx";

export type Column<T> = {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** Numbers are aligned at their end. */
  number?: boolean;
  /** The cell that names the row. */
  names?: boolean;
  /** A column of buttons; its head is for screen readers only. */
  actions?: boolean;
  /** How wide, in px, a table must be to show it. The card of a phone shows those of up to 780, and scopes. */
  room?: 560 | 780 | 860 | 960;
  /** Shown below the row's name if there is no room for the column. */
  fold?: (row: T) => ComponentChildren;
  /** Whether a folded value needs its column's name to be understood. Screen readers always get it. */
  foldsHead?: boolean;
};

export type Selection = {
  chosen: ReadonlySet<string>;
  onChange: (chosen: ReadonlySet<string>) => void;
  /** The name of a row. */
  label: (id: string) => string;
};

type TableProps<T> = {
  caption: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  selection?: Selection;
};

function classOf({ number, actions, room }: Pick<Column<never>, "number" | "actions" | "room">): string | undefined {
  const names = [number && "number", actions && "actions", room && `room-${room}`].filter(Boolean);
  return names.join(" ") || undefined;
}

function toggle(chosen: ReadonlySet<string>, ids: readonly string[], on: boolean): ReadonlySet<string> {
  const next = new Set(chosen);
  for (const id of ids) {
    if (on) next.add(id);
    else next.delete(id);
  }
  return next;
}

type CheckProps = { label: string; checked: boolean; mixed?: boolean; onChange: (on: boolean) => void };

function Check({ label, checked, mixed = false, onChange }: CheckProps) {
  return (
    <input
      type="checkbox"
      aria-label={label}
      checked={checked}
      indeterminate={mixed}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />
  );
}

function Folded<T>({ columns, row }: { columns: readonly Column<T>[]; row: T }) {
  return (
    <>
      {columns.map(({ head, room, fold, foldsHead }) => {
        const text = fold?.(row);
        return (
          text && (
            <span key={head} class={`under small fold-${room}`}>
              <span class={foldsHead ? undefined : "hide"}>{head}</span> {text}
            </span>
          )
        );
      })}
    </>
  );
}

function Head<T>({ columns, rows, rowKey, selection }: TableProps<T>) {
  const ids = rows.map(rowKey);
  const chosen = ids.filter((id) => selection?.chosen.has(id)).length;
  return (
    <thead>
      <tr>
        {selection && (
          <th scope="col" class="select">
            <Check
              label="All rows on this page"
              checked={chosen > 0 && chosen === ids.length}
              mixed={chosen > 0 && chosen < ids.length}
              onChange={(on) => selection.onChange(toggle(selection.chosen, ids, on))}
            />
          </th>
        )}
        {columns.map((column) => (
          <th key={column.head} scope="col" class={classOf(column)}>
            {column.actions ? <span class="hide">{column.head}</span> : column.head}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** What takes the focus in a row. A time only where nothing else does: see `useTimeStops`. */
export const ROW_CONTROL = "a[href], button, time[tabindex='0']";

/** The row of an element, those after it, then those before it. */
export function rowsFrom(element: Element | null): readonly Element[] {
  const row = element?.closest("[data-row]");
  const all = [...(row?.parentElement?.children ?? [])];
  const at = row ? all.indexOf(row) : 0;
  return [...all.slice(at), ...all.slice(0, at).toReversed()];
}

/** Focuses the first row that is still there and has something to focus; without one, the page's heading. */
export function focusRow(rows: readonly Element[]): void {
  const controls = rows.map((row) => row.isConnected && row.querySelector<HTMLElement>(ROW_CONTROL));
  const control = controls.find(Boolean);
  if (control) control.focus();
  else focusPage();
}

const IN_ROW = "a[href], button, input, time";

/** Right and left lead through the row: also to its times, which then show the exact ones. */
function moveInRow(event: KeyboardEvent): void {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const from = event.target instanceof Element ? event.target : null;
  // An open menu is in the row too.
  if (step === undefined || !isPlainKey(event) || !from || from.closest("[popover]")) return;
  const stops = [...(from.closest("[data-row]")?.querySelectorAll<HTMLElement>(IN_ROW) ?? [])];
  const shown = stops.filter((stop) => stop === from || stop.checkVisibility());
  const next = shown[shown.indexOf(from as HTMLElement) + step];
  if (!next) return;
  next.focus();
  event.preventDefault();
}

/** Tab stops at the first time of a row that has no control: its exact times are reached from there. */
function useTimeStops(body: RefObject<HTMLElement>): void {
  useLayoutEffect(() => {
    for (const row of body.current?.children ?? [])
      if (!row.querySelector(ROW_CONTROL)) row.querySelector("time")?.setAttribute("tabindex", "0");
  });
}

/** Keeps the focus near when what has it is removed, as after revoking a key. */
function useFocusInRows() {
  const body = useRef<HTMLTableSectionElement>(null);
  const focused = body.current?.contains(document.activeElement) ? document.activeElement : null;
  const rows = rowsFrom(focused);
  useLayoutEffect(() => {
    if (focused && !focused.isConnected) focusRow(rows);
  });
  // The whole table leaves, with its last row.
  useFocusAfter(body);
  return body;
}

export function Table<T>(props: TableProps<T>) {
  const { caption, columns, rows, rowKey, selection } = props;
  const body = useFocusInRows();
  useTimeStops(body);
  return (
    <div class="table-scroll">
      <table class="table">
        <caption class="hide">{caption}</caption>
        <Head {...props} />
        <ShortTimes.Provider value={true}>
          <tbody ref={body} onKeyDown={moveInRow}>
            {rows.map((row) => {
              const id = rowKey(row);
              return (
                <tr key={id} data-row={id}>
                  {selection && (
                    <td class="select">
                      <Check
                        label={selection.label(id)}
                        checked={selection.chosen.has(id)}
                        onChange={(on) => selection.onChange(toggle(selection.chosen, [id], on))}
                      />
                    </td>
                  )}
                  {columns.map((column) => {
                    const Cell = column.names ? "th" : "td";
                    return (
                      <Cell
                        key={column.head}
                        {...(column.names && { scope: "row" as const })}
                        class={classOf(column)}
                        data-label={column.head}
                      >
                        <div class="cell">
                          {column.cell(row)}
                          {column.names && <Folded columns={columns} row={row} />}
                        </div>
                      </Cell>
                    );
                  })}
                </tr>
              );
            })}
          </tbody>
        </ShortTimes.Provider>
      </table>
    </div>
  );
}
