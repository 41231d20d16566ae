// Lists records as wide as they may be, of characters that take longest to decode and encode: the event loop must stay
// free. A change of a project's scopes is an audit row of half a megabyte, which nothing deletes.
import { flood, type Attack } from "./attack.ts";

const KEYS = 40;
const CHANGES = 6;
const LISTS = 40;
const META = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`m${i}`, "😀".repeat(60)]));
const SCOPES = Array.from({ length: 64 }, (_, i) => `${i}${"😀".repeat(190)}`);
const catalogue = (letter: string) =>
  Array.from({ length: 200 }, (_, i) => ({ name: `s${i}-${letter.repeat(140)}`, description: "😀".repeat(240) }));

export const wideLists: Attack = {
  name: "lists of wide records",
  async run(stage) {
    const { call, key, project_id, tenant_id } = stage.attacker;
    const wide = { project_id, tenant_id, env: "test", scopes: SCOPES, meta: META };
    await flood(stage, { count: KEYS, width: 4 }, () => call(key, "POST /v1/keys", wide));
    await flood(stage, { count: CHANGES, width: 1 }, (i) =>
      call(key, `PATCH /v1/projects/${project_id}`, { scope_catalogue: catalogue(i % 2 ? "é" : "ö") }),
    );
    const routes = ["keys?limit=200", `keys?limit=200&project_id=${project_id}`, "projects", "audit_logs?order=desc"];
    await flood(stage, { count: LISTS, width: 4 }, (i) => call(key, `GET /v1/${routes[i % routes.length]}`));
    await call(key, `PATCH /v1/projects/${project_id}`, { scope_catalogue: [] });
  },
};
