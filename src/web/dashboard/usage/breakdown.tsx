// The figures of a chart's groups: requests, their share and, where groups are not outcomes, the share of errors.
import { formatNumber, formatShare } from "../../shared/format.ts";
import { hrefTo } from "../links.ts";
import { Table, type Column } from "../components/table.tsx";
import { UserText } from "../components/text.tsx";
import type { Label } from "./labels.ts";

export type Figures = Pick<Label, "name" | "prefix" | "tenant"> & {
  id: string | null;
  /** As in the chart. */
  colour: number;
  requests: number;
  errors: number;
};

/** Groups that have a page. */
const PAGE_OF: Partial<Record<string, string>> = { tenant: "tenants", project: "projects", key: "keys" };
const HEADS: Partial<Record<string, string>> = {
  outcome: "Outcome",
  project: "Project",
  tenant: "Tenant",
  key: "Key",
  route: "Route",
};

export function Breakdown({ rows, group, total }: { rows: readonly Figures[]; group: string; total: number }) {
  const page = PAGE_OF[group];
  const columns: Column<Figures>[] = [
    {
      head: HEADS[group] ?? "Group",
      names: true,
      cell: ({ name, prefix, tenant, id, colour }) => (
        <>
          <span class={`swatch colour-${colour}`} aria-hidden="true" />
          {page !== undefined && id !== null ? (
            <a href={hrefTo(page, { id })}>
              <UserText>{name}</UserText>
            </a>
          ) : (
            <UserText>{name}</UserText>
          )}
          {(prefix ?? tenant) && (
            <span class="under small">
              {prefix && <code>{prefix}</code>}
              {prefix && tenant && " · "}
              {tenant && <UserText>{tenant}</UserText>}
            </span>
          )}
        </>
      ),
    },
    { head: "Requests", number: true, cell: ({ requests }) => formatNumber(requests) },
    { head: "Share", number: true, cell: ({ requests }) => formatShare(requests / total) },
  ];
  if (group !== "outcome")
    columns.push({
      head: "Errors",
      number: true,
      cell: ({ requests, errors }) => formatShare(requests === 0 ? 0 : errors / requests),
    });
  return (
    <div class="breakdown">
      <Table caption="Requests by group" columns={columns} rows={rows} rowKey={({ name, id }) => `${id} ${name}`} />
      {group !== "outcome" && (
        <p class="panel-foot muted small">Errors are all responses with status 400 or above, also those of your API.</p>
      )}
    </div>
  );
}
