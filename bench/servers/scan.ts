// The limit of a snapshot: reads its columns row by row and does nothing with them. Prints milliseconds.
import Database from "better-sqlite3";

const db = new Database(process.argv[2] ?? "", { readonly: true });
db.pragma("cache_size=-65536");
const columns = "id, tenant_id, env, lookup_hash, display_prefix, scopes, expires_at, rate_limits";
const rows = db.prepare(`select ${columns} from api_keys where project_id = ? and revoked_at is null order by id`);
const start = performance.now();
let n = 0;
for (const row of rows.iterate(process.argv[3])) if (row) n++;
console.log(JSON.stringify({ ms: performance.now() - start, n }));
