// The events of the push, in the format of CloudEvents 1.0.
import { HOUR_MS } from "../../kernel/durations.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { usageRowId } from "../../store/usage/export.ts";
import { offeredParts } from "../../store/usage/metered-hours.ts";
import type { Services } from "../core/context.ts";
import { FIELDS, sumsOfPart } from "./parts.ts";

/** A stored hour of a tenant and project. */
type MeteredHour = {
  hour: number;
  group_id: number;
  parts: string;
  settled: number;
  refused: number;
  workspace_id: string;
  project_id: string;
  tenant: string;
  external_id: string | null;
  plan_id: string | null;
  slug: string | null;
};

/** `part` counts from 1. */
export type MeterPart = { hour: number; group_id: number; part: number; event: MeterEvent };

type MeterEvent = {
  specversion: "1.0";
  id: string;
  source: string;
  type: "keyrack.usage.v1";
  subject: string;
  time: string;
  datacontenttype: "application/json";
  data: {
    value: number;
    requests: number;
    errors: number;
    project_id: string;
    project_slug: string | null;
    tenant_id: string;
    plan_id: string | null;
    hour: string;
    part: number;
  };
};

/** The parts that were not sent to the receiver yet, or got no response. */
export function partsToSend(services: Services, row: MeteredHour): MeterPart[] {
  const { hour, group_id } = row;
  const sums = JSON.parse(row.parts) as number[];
  const parts: MeterPart[] = [];
  for (let part = offeredParts(row) + 1; part <= sums.length / FIELDS; part++)
    parts.push({ hour, group_id, part, event: eventOf(services, row, sums, part) });
  return parts;
}

/** The first part that the receiver has refused. Which of the parts behind it were refused too is only logged. */
export function refusedEvent(services: Services, row: MeteredHour): MeterEvent {
  return eventOf(services, row, JSON.parse(row.parts) as number[], row.settled + 1);
}

/** The same part has the same id and values whenever it is sent: receivers count it once. */
function eventOf({ settings }: Services, row: MeteredHour, sums: readonly number[], part: number): MeterEvent {
  const { workspace_id, project_id, tenant: tenant_id } = row;
  const time = formatTimestamp(row.hour * HOUR_MS);
  const [value, requests, errors] = sumsOfPart(sums, part);
  return {
    specversion: "1.0",
    id: `${usageRowId([workspace_id, "tenant", "hour", time, project_id, "live", tenant_id, null])}-${part}`,
    source: `${settings.public_url}/workspaces/${workspace_id}`,
    type: "keyrack.usage.v1",
    subject: row.external_id ?? tenant_id,
    time,
    datacontenttype: "application/json",
    data: {
      value,
      requests,
      errors,
      project_id,
      project_slug: row.slug,
      tenant_id,
      plan_id: row.plan_id,
      hour: time,
      part,
    },
  };
}
