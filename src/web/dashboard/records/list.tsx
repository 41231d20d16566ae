// A list of records: its table and pages, or why it has no rows.
import type { ComponentChildren } from "preact";
import type { Read } from "../api/query.ts";
import { NoMatch, NoMore } from "../components/empty.tsx";
import { pageCursor, Pager } from "../components/pager.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Table, type Column, type Selection } from "../components/table.tsx";
import { clearFilters, isFiltered } from "../forms/filters.tsx";
import { param } from "../links.ts";

type Page<T> = { data: readonly T[]; has_more?: true | undefined; next_cursor?: string | null | undefined };

/** Whether there is no record at all, so that neither filters nor a second button to create one are needed. */
export const isEmptyList = ({ state }: Read<Page<unknown>>, filters: readonly string[] = []): boolean =>
  state.value.data?.data.length === 0 &&
  !state.value.data.next_cursor &&
  !isFiltered(filters) &&
  pageCursor() === undefined;

type NoRowsProps = Pick<ListProps<unknown>, "what" | "filters" | "onNoMatch" | "empty">;

function NoRows({ what, filters = [], onNoMatch, empty }: NoRowsProps) {
  if (pageCursor() !== undefined) return <NoMore what={`${what}s`} />;
  if (!isFiltered(filters)) return <>{empty}</>;
  return <NoMatch what={`${what}s`} q={param("q")} action={onNoMatch} onClear={() => clearFilters(filters)} />;
}

type ListProps<T> = {
  read: Read<Page<T>>;
  caption: string;
  columns: readonly Column<T>[];
  /** What one row is: "key". */
  what: string;
  /** Shown if there is no record at all. */
  empty: ComponentChildren;
  /** The parameters of the address that filter the list. */
  filters?: readonly string[];
  /** Another step than clearing the filters. */
  onNoMatch?: ComponentChildren;
  /** How many there are on all pages, if that is known. */
  total?: number | undefined;
  selection?: Selection;
};

export function List<T extends { id: string }>(props: ListProps<T>) {
  const { read, caption, columns, what, total, selection } = props;
  return (
    <Loaded read={read} rows={8}>
      {({ data, has_more, next_cursor = has_more ? (data.at(-1)?.id ?? null) : null }) =>
        data.length === 0 && next_cursor === null ? (
          <NoRows {...props} />
        ) : (
          <>
            <Table
              caption={caption}
              columns={columns}
              rows={data}
              rowKey={({ id }) => id}
              {...(selection && { selection })}
            />
            <Pager next={next_cursor} shown={data.length} what={what} total={total} />
          </>
        )
      }
    </Loaded>
  );
}
