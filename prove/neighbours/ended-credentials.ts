// Holds the last byte of requests while their credential ends: none may be carried out.
import { holdLastByte } from "../../harness/processes/raw-http.ts";
import { must } from "../../harness/instances/world.ts";
import type { Attack } from "./attack.ts";

export const endedCredentials: Attack = {
  name: "body held while the credential ends",
  async run({ url, attacker: { call, key, project_id, tenant_id }, fresh, broken }) {
    const ending = await must(call(key, "POST /v1/secret_keys", { env: "live" }));
    const requests: [string, object][] = [
      ["POST /v1/secret_keys", { env: "live" }],
      ["POST /v1/keys", { project_id, tenant_id, env: "live" }],
      ["POST /v1/invites", { email: `${fresh()}@example.com`, role: "owner" }],
    ];
    const held = await Promise.all(requests.map(([route, body]) => holdLastByte(url, ending.key, route, body)));
    await must(call(key, `POST /v1/secret_keys/${ending.id}/revoke`, {}));
    for (const [i, one] of held.entries()) {
      const { status } = await one.finish();
      if (status !== 401) broken(`${requests[i]?.[0]} of a revoked key got ${status}`);
    }
  },
};
