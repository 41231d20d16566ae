// Keys that a secret scanner has found in public: where, and how long they still work.
import type { ComponentChildren } from "preact";
import type { RouteOutput } from "../../../client.ts";
import { POLL_MS, useRead, type Read } from "../api/query.ts";
import { countLeaks, useOverview } from "../api/overview.ts";
import { keyTitle, tenantLabel, useTenants, type SecretKey } from "../api/records.ts";
import { RevokeSecretKey, RotateSecretKey } from "../developers/secret-key-dialogs.tsx";
import { useDialogs } from "../records/use-dialogs.tsx";
import { env, hrefTo } from "../links.ts";
import { KeyName, RecordLink } from "../keys/key-name.tsx";
import { RevokeKey } from "../keys/revoke.tsx";
import { RotateKey } from "../keys/rotate.tsx";
import { rotateReason, type ApiKey } from "../keys/state.ts";
import { Badge } from "../components/badge.tsx";
import { Button, LinkButton } from "../components/button.tsx";
import { Empty } from "../components/empty.tsx";
import { Page, Panel } from "../components/page.tsx";
import { HALF_MAX, Pager, pageCursor, pageSize } from "../components/pager.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Table, type Column } from "../components/table.tsx";
import { FoundAt } from "../components/text.tsx";
import { Time } from "../components/time.tsx";

const every = { everyMs: POLL_MS.seldom };

type Leaked = ApiKey | SecretKey;
type Open = (action: "rotate" | "revoke", of: Leaked) => void;

type ColumnsOptions = {
  name: (key: Leaked) => ComponentChildren;
  open: Open;
  /** Whose keys they are; secret keys belong to no tenant. */
  tenant?: Column<Leaked>;
};

function Replacement({ of: { object, successor_id } }: { of: Leaked }) {
  if (!successor_id) return <Badge tone="warn">Not replaced</Badge>;
  return (
    <>
      <Badge tone="good">Replaced</Badge>
      {object === "api_key" && (
        <a class="under small" href={hrefTo("keys", { id: successor_id })}>
          New key
        </a>
      )}
    </>
  );
}

function columns({ name, open, tenant }: ColumnsOptions): Column<Leaked>[] {
  const button = (of: Leaked, action: Parameters<Open>[0], label: string, disabled: string | null) => (
    <Button needs="admin" label={`${label} ${keyTitle(of)}`} disabled={disabled} onClick={() => open(action, of)}>
      {label}
    </Button>
  );
  return [
    { head: "Key", names: true, cell: name },
    ...(tenant ? [tenant] : []),
    {
      head: "Reported",
      room: 780,
      cell: ({ quarantined_at }) => <Time at={quarantined_at} />,
      fold: ({ quarantined_at }) => <Time at={quarantined_at} />,
      foldsHead: true,
    },
    { head: "Found at", cell: ({ quarantine_reason }) => <FoundAt reason={quarantine_reason} isCell /> },
    {
      head: "State",
      room: 780,
      fold: ({ successor_id }) => (successor_id ? "Replaced" : "Not replaced"),
      cell: (key) => <Replacement of={key} />,
    },
    { head: "Stops working", cell: ({ expires_at }) => <Time at={expires_at} /> },
    {
      head: "Actions",
      actions: true,
      cell: (key) => (
        <div class="buttons">
          {!key.successor_id && button(key, "rotate", "Rotate", rotateReason(key))}
          {button(key, "revoke", "Revoke", null)}
        </div>
      ),
    },
  ];
}

/** The person to warn. */
function useTenantColumn(keys: readonly ApiKey[]): Column<Leaked> {
  const tenants = useTenants(keys.map(({ tenant_id }) => tenant_id));
  const label = (key: Leaked): ComponentChildren => {
    if (key.object !== "api_key") return null;
    const tenant = tenants.get(key.tenant_id);
    return <RecordLink page="tenants" id={key.tenant_id} label={tenant && tenantLabel(tenant)} />;
  };
  return { head: "Tenant", room: 560, cell: label, fold: label };
}

const linkedName = (key: Leaked): ComponentChildren => (
  <a href={hrefTo("keys", { id: key.id })}>
    <KeyName of={key} />
  </a>
);

type DialogProps = { of: Leaked; onClose: () => void };

const Rotate = ({ of, onClose }: DialogProps) =>
  of.object === "api_key" ? <RotateKey of={of} onClose={onClose} /> : <RotateSecretKey of={of} onClose={onClose} />;

const Revoke = ({ of, onClose }: DialogProps) =>
  of.object === "api_key" ? <RevokeKey of={of} onClose={onClose} /> : <RevokeSecretKey of={of} onClose={onClose} />;

function NoLeaks() {
  return (
    <Empty
      icon="leak"
      title="No key has leaked"
      action={<LinkButton href={hrefTo("keys")}>View keys</LinkButton>}
      command="keyrack scan ."
    >
      When a secret scanner finds one of your keys in public, the key is listed here and stops working within an hour.
      Scan your own code to find keys before others do.
    </Empty>
  );
}

type SecretKeysProps = { read: Read<RouteOutput<"GET /v1/secret_keys">>; open: Open };

/** The newest: a workspace has few. */
function LeakedSecretKeys({ read, open }: SecretKeysProps) {
  return (
    <Loaded read={read} rows={1}>
      {({ data, has_more }) =>
        data.length > 0 && (
          <Panel title="Secret keys">
            <Table
              caption="Leaked secret keys"
              columns={columns({ name: (key) => <KeyName of={key} />, open })}
              rows={data}
              rowKey={({ id }) => id}
            />
            {has_more && (
              <p class="panel-foot">
                <a href={hrefTo("developers")}>All secret keys</a>
              </p>
            )}
          </Panel>
        )
      }
    </Loaded>
  );
}

export function LeaksPage() {
  const cursor = pageCursor();
  const paging = { limit: pageSize(HALF_MAX), ...(cursor !== undefined && { cursor }) };
  const leaked = { env: env.value, state: "quarantined" as const };
  const keys = useRead("GET /v1/keys", { query: { ...leaked, ...paging } }, every);
  const secretKeys = useRead("GET /v1/secret_keys", { query: { ...leaked, limit: HALF_MAX } }, every);
  const { open, dialog } = useDialogs<Leaked, "rotate" | "revoke">({ rotate: Rotate, revoke: Revoke });
  const leakedSecrets = secretKeys.state.value.data?.data;
  const tenant = useTenantColumn(keys.state.value.data?.data ?? []);
  const unreplaced = useOverview(POLL_MS.rare).state.value.data?.leaks.unreplaced ?? 0;
  return (
    <Page
      title="Leaks"
      lead={
        <>
          Keys found in public. Rotate each one, deploy the new key, then revoke the old one.
          {unreplaced > 0 && <strong> Not replaced yet: {countLeaks(unreplaced)}.</strong>}
        </>
      }
    >
      <LeakedSecretKeys read={secretKeys} open={open} />
      <Loaded read={keys}>
        {({ data, next_cursor = null }) => (
          <>
            {data.length > 0 && (
              <Table
                caption="Leaked keys"
                columns={columns({ name: linkedName, open, tenant })}
                rows={data}
                rowKey={({ id }) => id}
              />
            )}
            {(next_cursor !== null || cursor !== undefined) && (
              <Pager next={next_cursor} shown={data.length} what="key" max={HALF_MAX} />
            )}
            {leakedSecrets?.length === 0 && data.length === 0 && cursor === undefined && <NoLeaks />}
          </>
        )}
      </Loaded>
      {dialog}
    </Page>
  );
}
