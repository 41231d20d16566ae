// The figures of a workspace's first page.
import { z } from "zod";
import { showOverview } from "../../domain/workspaces/overview.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Env, Timestamp } from "../schemas.ts";

const Count = z.int().describe("10000 means 10000 or more");

export const overviewShow = endpoint("GET /v1/overview", {
  summary: "Show the workspace in figures: keys by state, tenants, projects, nodes and the head of the audit log.",
  access: "keys.read",
  query: z.strictObject({ env: Env.optional().describe("environment of keys and nodes; live by default") }),
  output: z.strictObject({
    object: z.literal("overview"),
    env: Env,
    generated_at: Timestamp,
    keys: z.strictObject({ active: Count, expiring: Count, idle: Count, quarantined: Count }),
    leaks: z
      .strictObject({
        unreplaced: z.int().describe("1000 means 1000 or more"),
        stops_at: Timestamp.nullable().describe("when the first of them stops working"),
      })
      .describe("leaked keys, secret keys included, that still work and have no successor"),
    tenants: Count,
    projects: z.int(),
    nodes: z.strictObject({ live: z.int(), current: z.int() }),
    first_verified_at: Timestamp.nullable().describe("when the first request was admitted"),
    audit: z.strictObject({ head_seq: z.int(), head_hash: z.string() }),
  }),
  failures: ["test_cannot_live", "share_full"],
  handle: (ctx, { query }) => showOverview(ctx, query.env),
});
