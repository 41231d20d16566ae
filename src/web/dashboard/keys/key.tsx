// One key: its state, rights, limits and use.
import { useState } from "preact/hooks";
import { formatDate, formatNumber, formatPercent } from "../../shared/format.ts";
import { useRead } from "../api/query.ts";
import { Recent } from "../home/recent.tsx";
import { hrefTo } from "../here.ts";
import { Chips } from "../parts/badge.tsx";
import { Button } from "../parts/button.tsx";
import { Chart } from "../parts/chart.tsx";
import { CopyText } from "../parts/copy.tsx";
import { Facts, Page, Panel } from "../parts/page.tsx";
import { Loaded } from "../parts/skeleton.tsx";
import { Time } from "../parts/time.tsx";
import { DisableKey } from "./disable.tsx";
import { EditKey } from "./edit.tsx";
import { ruleText } from "./limits.ts";
import { tenantLabel, useProjects, useTenants } from "./records.ts";
import { RevokeKey } from "./revoke.tsx";
import { RotateKey } from "./rotate.tsx";
import { StateBadge } from "./state-badge.tsx";
import { keyState, keyTitle, type ApiKey } from "./state.ts";

const EVERY_MS = 10_000;
const DAYS = 30;
const DIALOGS = { edit: EditKey, rotate: RotateKey, disable: DisableKey, revoke: RevokeKey } as const;

function Actions({ of }: { of: ApiKey }) {
  const [open, setOpen] = useState<keyof typeof DIALOGS | null>(null);
  const ended = of.revoked_at === null ? null : "The key is revoked.";
  const disabled = of.disabled_at === null ? null : "The key is disabled. Enable it first.";
  const Open = open && DIALOGS[open];
  return (
    <>
      <Button needs="admin" disabled={ended} onClick={() => setOpen("edit")}>
        Edit
      </Button>
      <Button needs="admin" disabled={ended ?? disabled} onClick={() => setOpen("rotate")}>
        Rotate
      </Button>
      <Button needs="admin" disabled={ended} onClick={() => setOpen("disable")}>
        {of.disabled_at === null ? "Disable" : "Enable"}
      </Button>
      <Button needs="admin" disabled={ended} onClick={() => setOpen("revoke")}>
        Revoke
      </Button>
      {Open && <Open of={of} onClose={() => setOpen(null)} />}
    </>
  );
}

function Limits({ of }: { of: ApiKey }) {
  const project = useProjects().find(({ id }) => id === of.project_id);
  const rules = of.rate_limits ?? project?.default_rate_limits ?? [];
  const source = of.rate_limits === null ? "Project default" : "This key";
  return (
    <Facts
      facts={[
        [
          "Limits",
          rules.length === 0 ? (
            "None"
          ) : (
            <ul>
              {rules.map((rule) => (
                <li key={rule.id}>
                  {ruleText(rule)} <span class="muted small">{rule.id}</span>
                </li>
              ))}
            </ul>
          ),
        ],
        ["Source", source],
      ]}
    />
  );
}

function Usage({ id }: { id: string }) {
  const read = useRead("GET /v1/keys/{id}/usage", { params: { id }, query: { days: DAYS } }, { everyMs: EVERY_MS });
  return (
    <Loaded read={read}>
      {({ data }) => {
        const requests = data.reduce((sum, day) => sum + day.requests, 0);
        const errors = data.reduce((sum, day) => sum + day.errors, 0);
        if (requests === 0) return <p class="muted">Not used in the last {DAYS} days.</p>;
        const finding = `${formatNumber(requests)} requests, ${formatPercent(errors / requests)} with an error, last ${DAYS} days`;
        return (
          <>
            <p>{finding}</p>
            <Chart
              name={finding}
              file="key-usage"
              buckets={data.map(({ day }) => formatDate(Date.parse(day)))}
              series={[
                { name: "Admitted or answered", values: data.map((day) => day.requests - day.errors), colour: 1 },
                { name: "Errors", values: data.map((day) => day.errors), colour: 2 },
              ]}
            />
          </>
        );
      }}
    </Loaded>
  );
}

function RecordLink({ page, id, label }: { page: string; id: string; label: string }) {
  return (
    <a href={hrefTo(page, { id })}>
      <bdi>{label}</bdi>
    </a>
  );
}

function Meta({ of }: { of: ApiKey }) {
  if (Object.keys(of.meta).length === 0) return null;
  return (
    <details>
      <summary>Meta</summary>
      <pre class="meta">{JSON.stringify(of.meta, null, 2)}</pre>
    </details>
  );
}

function Record({ of }: { of: ApiKey }) {
  const project = useProjects().find(({ id }) => id === of.project_id);
  const tenant = useTenants([of.tenant_id]).get(of.tenant_id);
  return (
    <>
      <p class="lead state-line">
        <StateBadge of={of} tenant={tenant} /> {keyState(of, tenant).sentence}
      </p>
      <div class="two-columns">
        <div>
          <Panel title="Requests">
            <Usage id={of.id} />
          </Panel>
          <Recent target={of.id} title="Changes" />
        </div>
        <Panel title="Details">
          <Facts
            facts={[
              ["Key", <code key="key">{of.display_prefix}…</code>],
              ["Id", <CopyText key="id" text={of.id} name="Copy id" />],
              [
                "Tenant",
                tenant ? (
                  <RecordLink key="tenant" page="tenants" id={tenant.id} label={tenantLabel(tenant)} />
                ) : (
                  "Deleted"
                ),
              ],
              [
                "Project",
                project ? <RecordLink key="project" page="projects" id={project.id} label={project.name} /> : "Deleted",
              ],
              ["Environment", of.env],
              ["Scopes", <Chips key="scopes" values={of.scopes} max={20} />],
              ["Created", <Time key="created" at={of.created_at} focusable />],
              ["Last used", <Time key="used" at={of.last_used_at} focusable />],
              ["Expires", <Time key="expires" at={of.expires_at} focusable />],
              ...(of.rotated_from === null
                ? []
                : [
                    [
                      "Replaces",
                      <a key="from" href={hrefTo("keys", { id: of.rotated_from })}>
                        the key before it
                      </a>,
                    ] as const,
                  ]),
            ]}
          />
          <Limits of={of} />
          <Meta of={of} />
        </Panel>
      </div>
    </>
  );
}

export function KeyPage({ id }: { id: string }) {
  const read = useRead("GET /v1/keys/{id}", { params: { id } }, { everyMs: EVERY_MS });
  const key = read.answer.value.data;
  return (
    <Page
      title={key ? keyTitle(key) : "Key"}
      back={{ href: hrefTo("keys"), label: "Keys" }}
      actions={key && <Actions of={key} />}
    >
      <Loaded read={read}>{(of) => <Record of={of} />}</Loaded>
    </Page>
  );
}
