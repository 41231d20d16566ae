// Response schemas of nodes: the fleet, and who has acknowledged a change.
import { z } from "zod";
import { CAPABILITIES } from "../../kernel/policy/capabilities.ts";
import { Timestamp, Uuid } from "../schemas.ts";

const Capabilities = z.array(z.enum(CAPABILITIES)).describe("capabilities of the policy feed");

export const Propagation = z.strictObject({
  version: z.int(),
  complete: z.boolean(),
  unregistered_nodes: z.int().min(1).optional().describe("nodes, at least, that poll without being registered"),
  waited_ms: z.int(),
  acked_nodes: z.int(),
  total_nodes: z.int(),
  withheld_nodes: z.int().describe("nodes that lack a needed capability, so that they do not get what needs it"),
  nodes: z.array(
    z.strictObject({
      node_id: z.string(),
      env_scope: z.enum(["live", "test", "all"]),
      version: z.int(),
      acked: z.boolean(),
      caps: Capabilities,
      missing_caps: Capabilities,
      last_seen_at: Timestamp,
    }),
  ),
  nodes_omitted: z.int().describe("nodes that are counted, but not among the 1,000 listed"),
});
export const VersionPropagation = z.strictObject({
  object: z.literal("propagation"),
  project_id: Uuid,
  ...Propagation.shape,
});

const node = {
  object: z.literal("node"),
  project_id: Uuid,
  node_id: z.string(),
  env_scope: z.enum(["live", "test", "all"]),
  version: z.int(),
  lag: z.int().describe("versions that it lacks"),
  live: z.boolean(),
  caps: Capabilities.describe("capabilities that it announces"),
  missing_caps: Capabilities.describe("capabilities that keys of the project use and it lacks"),
  withheld_keys: z.int().describe("keys that it does not get because it lacks a capability"),
  full_power: z.boolean().describe("its secret key is unrestricted"),
  last_seen_at: Timestamp,
};
const fleet = {
  lag_ms: z
    .int()
    .nullable()
    .describe("age of the oldest version that it lacks; null if that is not in the log any more"),
  late: z.boolean().describe("live, and lacks a version for longer than KEYRACK_NODE_LATE_AFTER"),
  degraded: z.boolean().describe("in the last five minutes it reported a request that it decided degraded"),
  sdk: z
    .strictObject({ name: z.string(), version: z.string() })
    .nullable()
    .describe("its library; null if its calls name none"),
  first_seen_at: Timestamp.nullable().describe("null of a node that an earlier release registered"),
};
/** The fields of the fleet only with view=fleet. */
export const Node = z.strictObject({ ...node, ...z.strictObject(fleet).partial().shape });
export const FleetCounts = z.strictObject({
  total: z.int(),
  live: z.int(),
  current: z.int().describe("live, and with the newest version"),
  late: z.int(),
  degraded: z.int(),
  silent: z.int(),
  unregistered: z.int().describe("nodes, at least, that poll without being registered"),
});
