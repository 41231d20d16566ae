// The nodes that hold policy, and which of them have acknowledged a version.
import { z } from "zod";
import { listFleet, listNodes, NODE_STATES } from "../../domain/nodes/nodes.ts";
import { showPropagation } from "../../domain/nodes/propagation.ts";
import { endpoint } from "../../http/endpoint.ts";
import { onDisconnect } from "../../http/request.ts";
import { failField } from "../../kernel/errors.ts";
import { Cursor, Env, Limit, PAGE, Uuid } from "../schemas.ts";
import { FleetCounts, Node, VersionPropagation } from "./node-schemas.ts";

const WAIT_MS_MAX = 30_000;

export const nodesList = endpoint("GET /v1/nodes", {
  summary:
    "List the nodes of a project, the most recently seen first; with view=fleet those of all projects, in pages and with counts.",
  access: "keys.read",
  waitsForSlot: true,
  query: z.strictObject({
    project_id: Uuid.optional().describe("project of the nodes; required without view=fleet"),
    view: z.literal("fleet").optional().describe("also show how late each node is, and counts by state"),
    env: Env.optional().describe("only nodes with keys of this environment"),
    state: z.enum(NODE_STATES).optional().describe("only nodes in this state"),
    limit: Limit.optional(),
    cursor: Cursor.optional(),
  }),
  output: z.strictObject({
    object: z.literal("list"),
    data: z.array(Node),
    next_cursor: z.string().nullable().optional(),
    counts: FleetCounts.optional(),
  }),
  failures: ["project_not_found", "test_cannot_live"],
  handle: (ctx, { query: { view, project_id, ...paging } }) => {
    if (view === "fleet") return listFleet(ctx, { ...paging, limit: paging.limit ?? PAGE, project_id });
    const [fleetOnly] = Object.keys(paging);
    if (fleetOnly) throw failField("invalid_query", fleetOnly, "needs view=fleet");
    if (!project_id) throw failField("invalid_query", "project_id", "is required without view=fleet");
    return listNodes(ctx, project_id);
  },
});

export const propagationShow = endpoint("GET /v1/propagation", {
  summary:
    "Show which live nodes have acknowledged a policy version. With wait_ms the response waits for all of them, for at most 25 seconds.",
  access: "keys.read",
  query: z.strictObject({
    project_id: Uuid.describe("project of the version"),
    version: z.int().min(1).describe("policy version, at most the project's latest"),
    env: Env.optional().describe("only nodes with keys of this environment"),
    wait_ms: z
      .int()
      .min(0)
      .max(WAIT_MS_MAX)
      .default(0)
      .describe("how long to wait for all nodes, in milliseconds; values above 25000 count as 25000"),
  }),
  output: VersionPropagation,
  failures: ["project_not_found", "test_cannot_live", "share_full"],
  handle: (ctx, { query, request }) => showPropagation(ctx, query, onDisconnect(request)),
});
