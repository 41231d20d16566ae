// The page of one tenant: its keys in the environment on the screen, and what is known about it.
import { useRead } from "../api/query.ts";
import { useDialogs } from "../records/use-dialogs.tsx";
import { env, hrefTo } from "../links.ts";
import { CreateKey } from "../keys/create.tsx";
import { keyColumn, lastUsedColumn, projectCell } from "../keys/key-name.tsx";
import { tenantLabel, useProjects, type Tenant } from "../api/records.ts";
import { AllowedAddresses } from "../keys/addresses.tsx";
import { RuleList } from "../keys/rule-list.tsx";
import { StateBadge } from "../keys/state-badge.tsx";
import type { ApiKey } from "../keys/state.ts";
import { Badge } from "../components/badge.tsx";
import { Button, roleReason } from "../components/button.tsx";
import { CopyText } from "../components/copy.tsx";
import { Menu } from "../components/menu.tsx";
import { Facts, Panel } from "../components/page.tsx";
import { RecordPage } from "../records/page.tsx";
import { QuotaPanel } from "../plans/quota-meters.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Table, type Column } from "../components/table.tsx";
import { UserText } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import { Traffic } from "../usage/traffic.tsx";
import { PlanLink } from "./plan-field.tsx";
import { SuspendTenant } from "./suspend.tsx";
import { DeleteTenant, EditTenant, EndEmbedTokens, metaText } from "./tenant-dialogs.tsx";

const SHOWN_KEYS = 25;

function TenantKeys({ tenant }: { tenant: Tenant }) {
  const read = useRead("GET /v1/keys", { query: { tenant_id: tenant.id, env: env.value, limit: SHOWN_KEYS } });
  const columns: Column<ApiKey>[] = [
    keyColumn,
    { head: "Project", cell: projectCell(useProjects()) },
    { head: "State", cell: (key) => <StateBadge of={key} tenant={tenant} /> },
    lastUsedColumn,
  ];
  return (
    <Loaded read={read}>
      {({ data }) => (
        <>
          {data.length === 0 ? (
            <p class="muted">No {env.value} keys.</p>
          ) : (
            <Table caption="Keys of this tenant" columns={columns} rows={data} rowKey={({ id }) => id} />
          )}
          <p class="panel-foot">
            <a href={hrefTo("keys", { query: { tenant: tenant.id, state: "all" } })}>All keys, including revoked</a>
          </p>
        </>
      )}
    </Loaded>
  );
}

function State({ of }: { of: Tenant }) {
  const isActive = of.suspended_at === null;
  return (
    <p class="lead state-line">
      <Badge tone={isActive ? "good" : "warn"}>{isActive ? "Active" : "Suspended"}</Badge>{" "}
      {isActive ? "Its keys work." : "Requests with its keys are refused until it is resumed."}
    </p>
  );
}

function Details({ tenant }: { tenant: Tenant }) {
  const { plan_id, rate_limits, suspended_at, suspended_reason } = tenant;
  const meta = metaText(tenant.meta);
  const query = { env: env.value };
  const quotas = useRead("GET /v1/tenants/{id}/quotas", { params: { id: tenant.id }, query });
  return (
    <div class="two-columns">
      <div>
        <Panel title={env.value === "test" ? "Test keys" : "Live keys"}>
          <TenantKeys tenant={tenant} />
        </Panel>
        <Traffic title="Requests" of={{ tenant_id: tenant.id }} range="12m" />
      </div>
      <div>
        <Panel title="Details">
          <Facts
            facts={{
              "External id": <UserText>{tenant.external_id}</UserText>,
              Id: <CopyText text={tenant.id} name="Copy id" />,
              "Allowed IP addresses": <AllowedAddresses of={tenant} />,
              Plan: plan_id === undefined ? "None" : <PlanLink id={plan_id} />,
              "Rate limits": rate_limits && (rate_limits.length > 0 ? <RuleList rules={rate_limits} /> : "No limits"),
              Suspended: suspended_at && <Time at={suspended_at} />,
              Reason: suspended_reason && <UserText>{suspended_reason}</UserText>,
              Created: <Time at={tenant.created_at} />,
              Updated: <Time at={tenant.updated_at} />,
            }}
          />
        </Panel>
        <QuotaPanel read={quotas} />
        <Panel title="Meta">
          {meta === "" ? (
            <p class="muted">None.</p>
          ) : (
            <pre class="meta" tabIndex={0} role="region" aria-label="Meta">
              <bdi>{meta}</bdi>
            </pre>
          )}
        </Panel>
      </div>
    </div>
  );
}

/** A new key of this tenant. */
function CreateTenantKey({ of, onClose }: { of: Tenant; onClose: () => void }) {
  return <CreateKey tenant={{ id: of.id, label: tenantLabel(of), hint: of.external_id }} onClose={onClose} />;
}

function Actions({ of }: { of: Tenant }) {
  const { open, dialog } = useDialogs({
    key: CreateTenantKey,
    edit: EditTenant,
    end: EndEmbedTokens,
    suspend: SuspendTenant,
    delete: DeleteTenant,
  });
  const disabled = roleReason("admin");
  return (
    <>
      <Button kind="primary" icon="plus" needs="admin" onClick={() => open("key", of)}>
        Create key
      </Button>
      <Button needs="admin" onClick={() => open("edit", of)}>
        Edit
      </Button>
      <Button needs="admin" onClick={() => open("suspend", of)}>
        {of.suspended_at === null ? "Suspend" : "Resume"}
      </Button>
      <Menu
        label="More actions"
        groups={[
          // A list of them would be one request more than a page may need.
          [{ label: "View changes", href: hrefTo("audit", { query: { target: of.id } }) }],
          [{ label: "End embed tokens", disabled, onSelect: () => open("end", of) }],
          [{ label: "Delete tenant", disabled, danger: true, onSelect: () => open("delete", of) }],
        ]}
      />
      {dialog}
    </>
  );
}

export function TenantPage({ id }: { id: string }) {
  const read = useRead("GET /v1/tenants/{id}", { params: { id } });
  return (
    <RecordPage read={read} type="Tenant" title={tenantLabel} actions={(of) => <Actions of={of} />}>
      {(of) => (
        <>
          <State of={of} />
          <Details tenant={of} />
        </>
      )}
    </RecordPage>
  );
}
