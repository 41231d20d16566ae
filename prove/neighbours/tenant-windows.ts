// Uses embed tokens of many tenants once each, in both environments: the windows of their throttles are those of one
// workspace. A burst is far below the bound of windows; test/http/request-throttles.test.ts reaches it.
import { flood, type Attack } from "./attack.ts";

const TENANTS = 150;
const ORIGIN = "https://app.example.com";

export const tenantWindows: Attack = {
  name: "embed tokens of many tenants",
  async run(stage) {
    const { call, key, project_id } = stage.attacker;
    await call(key, "PATCH /v1/workspace", { embed_origins: [ORIGIN] });
    await flood(stage, { count: TENANTS, width: 8 }, async () => {
      const { status, body: tenant } = await call(key, "POST /v1/tenants", { external_id: stage.fresh() });
      if (status !== 201) return;
      for (const env of ["live", "test"]) {
        const wanted = { project_id, tenant_id: tenant.id, env, scopes: ["keys:read", "keys:write"] };
        const { token } = (await call(key, "POST /v1/embed_tokens", wanted)).body;
        await call(String(token), "POST /v1/embed/keys", {}, { headers: { origin: ORIGIN } });
      }
      await call(key, `DELETE /v1/tenants/${tenant.id}`);
    });
  },
};
