// The events of the push, in the format of CloudEvents 1.0.
import { HOUR_MS } from "../../kernel/durations.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { usageRowId } from "../../store/usage/export.ts";
import { offeredParts } from "../../store/usage/metered-hours.ts";
import type { Services } from "../core/context.ts";
import { claimFactOnce } from "../core/facts.ts";
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

/**
 * How the source of every event begins: the public URL at the first push, also when the setting has changed since.
 * Receivers deduplicate by source and id, so that with another source they would count again what is sent again.
 */
export function sourceBase(services: Services): Promise<string> {
  return claimFactOnce(services, "meter_source", () => String(services.settings.public_url));
}

/** The parts that were not sent to the receiver yet, or got no response. */
export function partsToSend(base: string, row: MeteredHour): MeterPart[] {
  const { hour, group_id } = row;
  const sums = JSON.parse(row.parts) as number[];
  const parts: MeterPart[] = [];
  for (let part = offeredParts(row) + 1; part <= sums.length / FIELDS; part++)
    parts.push({ hour, group_id, part, event: eventOf(base, row, sums, part) });
  return parts;
}

/**
 * The id of the first part that the receiver has refused. Which of the parts behind it were refused too is only logged.
 */
export function refusedId(row: MeteredHour): string {
  return eventId(row, row.settled + 1);
}

const startOf = ({ hour }: MeteredHour): string => formatTimestamp(hour * HOUR_MS);

function eventId(row: MeteredHour, part: number): string {
  const { workspace_id, project_id, tenant } = row;
  return `${usageRowId([workspace_id, "tenant", "hour", startOf(row), project_id, "live", tenant, null])}-${part}`;
}

/**
 * The same part has the same source, id and figures whenever it is sent: receivers count it once. The plan and the slug
 * are those of now.
 */
function eventOf(base: string, row: MeteredHour, sums: readonly number[], part: number): MeterEvent {
  const { workspace_id, project_id, tenant: tenant_id } = row;
  const time = startOf(row);
  const [value, requests, errors] = sumsOfPart(sums, part);
  return {
    specversion: "1.0",
    id: eventId(row, part),
    source: `${base}/workspaces/${workspace_id}`,
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
