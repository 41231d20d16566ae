// API keys as credentials of their holders: found by hash in every workspace, with what they may do to themselves.
import { statement } from "../engine/statement.ts";
import { notRevoked, selectKeys } from "./keys.ts";

/** What admission looks at. */
export const holderByHash = statement<{ lookup_hash: string }>()((db, p) =>
  selectKeys(db)
    .clearSelect()
    .select(["id", "workspace_id", "project_id", "tenant_id", "env", "expires_at", "disabled_at"])
    .select((eb) => [
      eb.case().when(notRevoked(eb)).then(0).else(1).end().as("revoked"),
      eb
        .selectFrom("tenants")
        .select("suspended_at")
        .whereRef("tenants.id", "=", "api_keys.tenant_id")
        .as("suspended_at"),
      eb
        .selectFrom("workspaces")
        .select("created_by")
        .whereRef("workspaces.id", "=", "api_keys.workspace_id")
        .as("account_id"),
    ])
    .where("lookup_hash", "=", p.lookup_hash),
);

/** The key with what its project says about it, and its successor. */
export const selfById = statement<{ workspace_id: string; id: string; now: number }>()((db, p) =>
  selectKeys(db)
    .select((eb) => {
      const project = eb.selectFrom("projects").whereRef("projects.id", "=", "api_keys.project_id");
      return [
        project.select("projects.default_rate_limits").as("default_rate_limits"),
        project.select("projects.key_policy").as("key_policy"),
        eb
          .selectFrom("api_keys as successor")
          .select("successor.id")
          .whereRef("successor.rotated_from", "=", "api_keys.id")
          .where("successor.revoked_at", "is", null)
          .where((own) => own.or([own("successor.expires_at", "is", null), own("successor.expires_at", ">", p.now)]))
          .limit(eb.lit(1))
          .as("successor_id"),
      ];
    })
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);
