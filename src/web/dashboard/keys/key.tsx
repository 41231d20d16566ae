// One key: its state, rights, limits and use.
import { useEffect } from "preact/hooks";
import { successorOf } from "../../shared/successor.ts";
import { serverNow } from "../api/clock.ts";
import { POLL_MS, useRead } from "../api/query.ts";
import { Recent } from "../home/recent.tsx";
import { useDialogs } from "../records/use-dialogs.tsx";
import { env, hrefTo } from "../links.ts";
import { Chips } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { CopyText } from "../components/copy.tsx";
import { Facts, Panel } from "../components/page.tsx";
import { RecordPage } from "../records/page.tsx";
import { QuotaPanel } from "../plans/quota-meters.tsx";
import { UserText } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import { go } from "../routes.ts";
import { Traffic } from "../usage/traffic.tsx";
import { AllowedAddresses } from "./addresses.tsx";
import { DisableKey } from "./disable.tsx";
import { EditKey } from "./edit.tsx";
import { KeyLink, RecordLink } from "./key-name.tsx";
import { RuleList } from "./rule-list.tsx";
import { Reasons } from "./lookup.tsx";
import { keyTitle, tenantLabel, useKeys, useTenant } from "../api/records.ts";
import { RevokeKey } from "./revoke.tsx";
import { RotateKey } from "./rotate.tsx";
import { StateLine } from "./state-badge.tsx";
import { endedReason, rotateReason, type ApiKey } from "./state.ts";

const every = { everyMs: POLL_MS.usual };
export const DIALOGS = { edit: EditKey, rotate: RotateKey, disable: DisableKey, revoke: RevokeKey } as const;

function Actions({ of }: { of: ApiKey }) {
  const { open, dialog } = useDialogs(DIALOGS);
  const ended = endedReason(of);
  return (
    <>
      <Button needs="admin" disabled={ended} onClick={() => open("edit", of)}>
        Edit
      </Button>
      <Button needs="admin" disabled={rotateReason(of)} onClick={() => open("rotate", of)}>
        Rotate
      </Button>
      <Button needs="admin" disabled={ended} onClick={() => open("disable", of)}>
        {of.disabled_at === null ? "Disable" : "Enable"}
      </Button>
      <Button needs="admin" disabled={ended} onClick={() => open("revoke", of)}>
        Revoke
      </Button>
      {dialog}
    </>
  );
}

/** The node is shown to compare it with the fleet. */
function LastUse({ of: { network, user_agent, node_id } }: { of: NonNullable<ApiKey["last_used"]> }) {
  return (
    <>
      {network && <code>{network}</code>} {user_agent && <UserText>{user_agent}</UserText>}{" "}
      <span class="muted small">{node_id}</span>
    </>
  );
}

const SOURCES: Partial<Record<string, string>> = {
  key: "This key",
  tenant: "Tenant",
  plan: "Plan",
  project: "Project default",
};

/** What nodes enforce. */
function Limits({ of: { effective } }: { of: ApiKey }) {
  if (!effective) return null;
  const { rate_limits: rules, rate_limits_source, dropped_scopes, plan_id, plan_name } = effective;
  return (
    <Facts
      facts={{
        Limits: rules.length === 0 ? "None" : <RuleList rules={rules} />,
        Source: SOURCES[rate_limits_source] ?? rate_limits_source,
        Plan: plan_id !== null && <RecordLink page="plans" id={plan_id} label={plan_name ?? undefined} />,
        "Scopes removed by the plan": dropped_scopes.length > 0 && <Chips values={dropped_scopes} />,
      }}
    />
  );
}

function Meta({ of }: { of: ApiKey }) {
  if (Object.keys(of.meta).length === 0) return null;
  return (
    <details class="more">
      <summary>Meta</summary>
      <pre class="meta">
        <bdi>{JSON.stringify(of.meta, null, 2)}</bdi>
      </pre>
    </details>
  );
}

/** Its predecessor and its successor by rotation, by id. */
type Neighbours = ReturnType<typeof useKeys>;

const neighbour = (id: string | null, keys: Neighbours) => id !== null && <KeyLink id={id} of={keys.get(id)} />;

/** Its creation is a row about the key that was rotated. */
function Changes({ of: { id, rotated_from }, keys }: { of: ApiKey; keys: Neighbours }) {
  const rotation = rotated_from !== null && (
    <p>
      Created by rotating <KeyLink id={rotated_from} of={keys.get(rotated_from)} />
    </p>
  );
  return <Recent target={id} title="Changes" none={rotation || undefined} />;
}

/** Also shown for a revoked key: there may be further reasons for its refusal. */
function Refusal({ of: { verdict } }: { of: ApiKey }) {
  if (!verdict || verdict.admitted) return null;
  return (
    <Panel title="Why is this key refused?">
      <Reasons of={verdict.reasons} />
    </Panel>
  );
}

function Record({ of }: { of: ApiKey }) {
  const { rotated_from, successor_id = null } = of;
  const keys = useKeys(
    [rotated_from, successor_id].filter((id) => id !== null),
    every,
  );
  const tenant = useTenant(of.tenant_id, every);
  // The newest may have ended.
  const successor = successorOf(of, [...keys.values()], serverNow());
  const quotas = useRead("GET /v1/keys/{id}/quotas", { params: { id: of.id } }, every);
  return (
    <>
      <StateLine of={of} tenant={tenant} successor={successor} verdict={of.verdict} />
      <div class="two-columns">
        <div>
          <Traffic title="Requests" of={{ key_id: of.id }} range="30d" />
          <Changes of={of} keys={keys} />
        </div>
        <div>
          <Panel title="Details">
            <Facts
              facts={{
                Key: <code>{of.display_prefix}…</code>,
                Id: <CopyText text={of.id} name="Copy id" />,
                Tenant: <RecordLink page="tenants" id={of.tenant_id} label={tenant && tenantLabel(tenant)} />,
                Project: (
                  <RecordLink page="projects" id={of.project_id} label={of.effective?.project_name ?? undefined} />
                ),
                Environment: of.env === "test" ? "Test" : "Live",
                Scopes: <Chips values={of.scopes} />,
                "Allowed IP addresses": <AllowedAddresses of={of} />,
                Created: <Time at={of.created_at} />,
                "Last used": <Time at={of.last_used_at} />,
                "Last used from": of.last_used && <LastUse of={of.last_used} />,
                [Date.parse(of.expires_at ?? "") <= serverNow() ? "Expired" : "Expires"]: <Time at={of.expires_at} />,
                Replaces: neighbour(rotated_from, keys),
                "Replaced by": neighbour(successor_id, keys),
              }}
            />
            <Limits of={of} />
            <Meta of={of} />
          </Panel>
          <Refusal of={of} />
          <QuotaPanel read={quotas} />
        </div>
      </div>
    </>
  );
}

export function KeyPage({ id }: { id: string }) {
  const read = useRead(
    "GET /v1/keys/{id}",
    { params: { id }, query: { include: "effective,last_used,successor,verdict" } },
    every,
  );
  const found = read.state.value.data;
  // A link from the audit log has the environment of the page that it is on.
  const isElsewhere = found !== null && found.env !== env.value;
  useEffect(() => {
    if (isElsewhere) go(hrefTo("keys", { id, env: found.env }), { replace: true });
  }, [isElsewhere]);
  return (
    <RecordPage
      read={read}
      type="Key"
      title={(of) => (isElsewhere ? "Key" : keyTitle(of))}
      actions={(of) => !isElsewhere && <Actions of={of} />}
    >
      {(of) => !isElsewhere && <Record of={of} />}
    </RecordPage>
  );
}
