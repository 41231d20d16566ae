// Mints keys and deletes their project, again and again.
import { must } from "../../harness/instances/world.ts";
import { flood, type Attack } from "./attack.ts";

export const deletions: Attack = {
  name: "deletions with their keys",
  async run(stage) {
    const { call, key, tenant_id } = stage.attacker;
    const project = await must(call(key, "POST /v1/projects", { name: "P", slug: stage.fresh() }));
    const want = { project_id: project.id, tenant_id, env: "live" };
    await flood(stage, { count: 700, width: 16 }, () => call(key, "POST /v1/keys", want));
    await call(key, `DELETE /v1/projects/${project.id}`);
  },
};
