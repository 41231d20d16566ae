// Totals for /metrics over all workspaces: numbers only, no names or ids.
import { countRows, statement } from "../engine/statement.ts";

export const countLiveNodes = statement<{ seenAfter: number }>()((db, p) =>
  db.selectFrom("policy_nodes").select(countRows).where("last_seen_at", ">", p.seenAfter),
);

/** All nodes, and those of them that reported a degraded decision after `degradedAfter`. */
export const countAllNodes = statement<{ degradedAfter: number }>()((db, p) =>
  db.selectNoFrom((eb) => [
    eb.selectFrom("policy_nodes").select(countRows).as("total"),
    eb.selectFrom("policy_nodes").select(countRows).where("degraded_at", ">", p.degradedAfter).as("degraded"),
  ]),
);

/** Live nodes that lack a version made by `madeBefore`, or one that is no longer in the delta log. */
export const countLateNodes = statement<{ seenAfter: number; madeBefore: number }>()((db, p) =>
  db
    .selectFrom("policy_nodes as n")
    .innerJoin("projects as p", "p.id", "n.project_id")
    .leftJoin("policy_versions as v", (join) =>
      join.onRef("v.project_id", "=", "n.project_id").on((eb) => eb("v.version", "=", eb("n.version", "+", 1))),
    )
    .select(countRows)
    .where("n.last_seen_at", ">", p.seenAfter)
    .whereRef("n.version", "<", "p.policy_version")
    .where((eb) => eb.or([eb("v.changed_at", "is", null), eb("v.changed_at", "<", p.madeBefore)])),
);

/** Live nodes of projects that use capabilities, counted by what the project uses and what the nodes have. */
export const liveNodesOfUsers = statement<{ seenAfter: number }>()((db, p) =>
  db
    .selectFrom("policy_nodes")
    .innerJoin("projects", "projects.id", "policy_nodes.project_id")
    .select(["projects.features", "policy_nodes.caps", countRows])
    .where("policy_nodes.last_seen_at", ">", p.seenAfter)
    .where("projects.features", "<>", 0)
    .where("projects.deleted_at", "is", null)
    .groupBy(["projects.features", "policy_nodes.caps"]),
);

/** A chain has no gaps, so its head is its length. */
export const auditTotals = statement<Record<string, never>>()((db) =>
  db
    .selectFrom("audit_heads")
    .select((eb) => [
      eb.fn.countAll<number>().as("chains"),
      eb.fn.coalesce(eb.cast<number>(eb.fn.sum<number>("seq"), "bigint"), eb.lit(0)).as("rows"),
    ]),
);
