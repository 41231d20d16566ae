// The list of tenants.
import { useState } from "preact/hooks";
import { useRead } from "../api/query.ts";
import { hrefTo, param } from "../here.ts";
import { Badge } from "../parts/badge.tsx";
import { Button } from "../parts/button.tsx";
import { Empty } from "../parts/empty.tsx";
import { Page } from "../parts/page.tsx";
import { nextCursor, pageCursor, Pager } from "../parts/pager.tsx";
import { Loaded } from "../parts/skeleton.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { Name, UserText } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { CreateTenant, type Tenant } from "./tenant-dialogs.tsx";

const COLUMNS: readonly Column<Tenant>[] = [
  {
    head: "Tenant",
    names: true,
    cell: ({ id, name, external_id }) => (
      <a href={hrefTo("tenants", { id })}>
        <Name name={name} fallback={external_id} />
      </a>
    ),
  },
  { head: "State", cell: ({ suspended_at }) => suspended_at !== null && <Badge tone="warn">Suspended</Badge> },
  { head: "External id", cell: ({ external_id }) => <UserText>{external_id}</UserText> },
  { head: "Created", cell: ({ created_at }) => <Time at={created_at} /> },
  { head: "Changed", cell: ({ updated_at }) => <Time at={updated_at} /> },
];

export function Tenants() {
  const after = pageCursor();
  const read = useRead("GET /v1/tenants", { query: { after } });
  const [creating, setCreating] = useState(param("create") !== "");
  const create = (
    <Button kind="primary" icon="plus" needs="admin" onClick={() => setCreating(true)}>
      Create tenant
    </Button>
  );
  const isEmpty = read.answer.value.data?.data.length === 0 && after === undefined;
  return (
    <Page title="Tenants" lead="Your customers: the organisations that hold keys." actions={!isEmpty && create}>
      <Loaded read={read} rows={8}>
        {(list) =>
          isEmpty ? (
            <Empty
              icon="tenant"
              title="No tenants yet"
              action={create}
              command="keyrack tenant create --external-id customer-1"
            >
              A tenant is one of your customers. Keys are made for a tenant, and usage is counted by tenant.
            </Empty>
          ) : (
            <>
              <Table caption="Tenants" columns={COLUMNS} rows={list.data} rowKey={({ id }) => id} />
              {(list.has_more || after !== undefined) && (
                <Pager next={nextCursor(list)} shown={list.data.length} what="tenants" sizes={false} />
              )}
            </>
          )
        }
      </Loaded>
      {creating && <CreateTenant onClose={() => setCreating(false)} />}
    </Page>
  );
}
