// The name of every benchmark row, `<bench>/<row>`, and what the row measures. Comments on fast paths cite these names
// (`bench: vendor/mint`); test/house/bench-rows.test.ts checks that the cited rows exist.
export const ROWS = {
  "vendor/mint": "durable POST /v1/keys, SQLite, 50 clients; peer: h3's POST echo",
  "vendor/mint-rows": "the same; limit: its rows alone, written in groups by bare node:http",
  "vendor/mint-better-auth": "durable POST /v1/keys, SQLite; peer: better-auth's create on WAL+FULL, in process",
  "vendor/get-by-id": "GET /v1/keys/{id}, SQLite; peer: h3's tiny GET",
  "vendor/mint-postgres": "durable POST /v1/keys, PostgreSQL, one hot workspace; peer: one transaction per request",
  "vendor/mint-postgres-echo": "durable POST /v1/keys, PostgreSQL; peer: h3's POST echo",
  "vendor/mint-previous":
    "durable POST /v1/keys without name and scopes, SQLite; compared with the previous release, 0.1.0",
  "vendor/mint-terms": "the same with a name of two words and two scopes, which are indexed",
  "vendor/get-by-id-postgres": "GET /v1/keys/{id}, PostgreSQL; peer: h3's tiny GET",

  "parts/healthz": "GET /healthz: request id, headers, overload guard, metrics; peer: a bare GET",
  "parts/refused":
    "GET /v1/keys without a credential, 401: adds routing by h3, the refusal and its log line; peer: a bare GET",
  "parts/unchanged-poll": "policy/delta 304: adds a cached credential, the query and the feed's head; peer: a bare GET",
  "parts/get-by-id": "GET /v1/keys/{id}: adds a key read from SQLite and a JSON response; peer: a bare GET",
  "parts/check": "ratelimit/check: adds reading and validating a body, and the counter; peer: a bare POST",
  "parts/mint":
    "POST /v1/keys: adds the schema, a secret, five statements, an audit row and the commit; peer: a bare POST",

  "neighbours/check":
    "ratelimit/check, p99, beside 32 × 50 pipelined checks of another workspace; compared with no other load",
  "neighbours/check-beside-claims":
    "ratelimit/check, p99, beside 32 × 50 pipelined claims of another workspace; compared with no other load",
  "neighbours/claim":
    "idempotency/claim, p99, beside 32 × 50 pipelined claims of another workspace; compared with no other load",
  "neighbours/mint":
    "POST /v1/keys, p99, beside 32 × 50 pipelined claims of another workspace; compared with no other load",
  "neighbours/mint-beside-anonymous":
    "POST /v1/keys, p99, beside 32 × 50 pipelined requests without a credential; compared with no other load",
  "neighbours/check-beside-bodies":
    "ratelimit/check, p99, beside hostile bodies of up to 8 MiB of another workspace; compared with no other load",
  "neighbours/mint-credential":
    "CPU time of POST /v1/keys, which reads its credential again in the transaction; compared with not reading it",
  "neighbours/check-turns": "CPU time of ratelimit/check with turns of owners, one owner; compared with no turns",
  "neighbours/write-beside-deletion":
    "idempotency/claim, the longest, while another workspace deletes a project of 1e5 keys; compared with the p99 before",
  "neighbours/chain": "GET /v1/audit_logs/chain of 1e6 rows that were verified before; compared with 1e4 rows",

  "scale/mint-1e5": "cost of a mint with 100,000 keys, compared with 10,000 (time ratio)",
  "scale/mint-1e6": "cost of a mint with 1,000,000 keys, compared with 10,000 (time ratio)",

  "feed/unchanged-poll": "policy/delta 304, CPU time; peer: a bare GET (the ratio is the peer's time to ours)",
  "feed/snapshot": "snapshot of 1e5 keys over HTTP; limit: reading the rows",
  "feed/snapshot-plans":
    "snapshot of 1e5 keys whose 1,000 tenants are on a plan with limits and scopes, CPU time; compared with no plan",
  "feed/second-snapshot": "a second node's snapshot (zstd), CPU time of the server; compared with the first node's",
  "feed/snapshot-memory": "growth of memory during the snapshot; limit: 30 MB",
  "feed/revocation": "a revocation at 200 waiting nodes, p99; limit: 60 ms",
  "feed/delta": "a delta of one change with 1e5 keys; compared with 1e3 keys",

  "fleet/unchanged-poll": "unchanged polls on PostgreSQL, 48 connections; compared with SQLite",
  "fleet/unchanged-poll-rounds":
    "unchanged polls on PostgreSQL, 48 connections, which share head reads; compared with one read a poll",
  "fleet/head-reads": "statements that read heads for unchanged polls on PostgreSQL, 48 connections; limit: one a poll",
  "fleet/commits": "commits of 8 processes on one PostgreSQL with a sync of 2 ms; compared with one process",
  "fleet/acknowledgements": "storing what 1,000 nodes report, on PostgreSQL; compared with row by row",
  "fleet/checks-beside-wakes":
    "ratelimit/check while 2,000 polls wait and 50 mints a second wake them; compared with no mints",
  "fleet/revocation": "a revocation at 5,000 waiting nodes, p99; compared with 1,000",

  "insight/search": "GET /v1/keys by q, state or sort, SQLite, the slowest at 1e6 keys; compared with 1e3 keys",
  "insight/search-postgres": "the same on PostgreSQL",
  "insight/audit": "GET /v1/audit_logs by a filter, SQLite, the slowest at 1e6 rows; compared with a plain page",
  "insight/audit-postgres": "the same on PostgreSQL",
  "insight/overview": "GET /v1/overview that is not cached, SQLite, 1e6 keys; compared with 1e3 keys",
  "insight/overview-postgres": "the same on PostgreSQL",
  "insight/top-tenants": "usage series of the top 10 tenants by hour over 30 days, 1e7 events; limit: 50 ms",
  "insight/top-tenants-loop": "event-loop delay during it, p99, above that of an idle process; limit: 5 ms",
  "insight/outcomes": "usage series by outcome and hour over the same 30 days; limit: 50 ms",
  "insight/audit-export": "GET /v1/audit_logs/export of 1e5 rows, SQLite; limit: the same rows selected in pages",
  "insight/audit-export-memory": "growth of memory during the export; limit: 20 MB",
  "insight/check-quota": "ratelimit/check with one rule and one quota; compared with the rule alone",
  "insight/lease-quota": "ratelimit/lease of 100 units with one rule and one quota; compared with the rule alone",
  "insight/plan-patch": "a changed limit of a plan with 1e5 tenants; compared with one with 10",

  "rules/snapshot":
    "snapshot of 1e5 keys, a tenth with address lists, to a node with capabilities, CPU time; compared with one without",
  "rules/second-snapshot": "a second node with capabilities (zstd), CPU time of the server; compared with the first",
  "rules/unchanged-poll":
    "policy/delta 304 with capabilities, CPU time; compared with none (the ratio is theirs to ours)",
  "rules/suspend": "suspending a tenant of 10,000 keys; compared with deleting one",
  "rules/bulk-revoke": "10,000 keys revoked in bulk, 500 a call; compared with single revocations by 50 clients",
  "rules/self": "GET /v1/self with the API key; compared with GET /v1/keys/{id}",
  "rules/mint": "POST /v1/keys under a key policy and with a prefix; compared with neither",

  "dashboard/login": "the login page until its heading, at a quarter of the speed; compared with a blank page",
  "dashboard/keys": "the list of keys until its first row, 100,000 keys and 10,000 tenants; compared with 50 keys",
  "dashboard/heap": "growth of the page's heap, 100,000 keys paged 20 times forward and back; limit: 30 MB",
  "dashboard/verify": "the audit log verified in the browser; compared with keyrack audit verify --file",

  "verify/floor-1e4": "verify() at 1e4 keys; limit: the fused floor",
  "verify/digests-1e4": "verify() at 1e4 keys; limit: the fused floor with only digests in its table",
  "verify/idiomatic-1e4": "verify() at 1e4 keys; peer: a straightforward implementation",
  "verify/floor-1e5": "verify() at 1e5 keys; limit: the fused floor",
  "verify/digests-1e5": "verify() at 1e5 keys; limit: the fused floor with only digests in its table",
  "verify/idiomatic-1e5": "verify() at 1e5 keys; peer: a straightforward implementation",
  "verify/floor-1e6": "verify() at 1e6 keys; limit: the fused floor",
  "verify/digests-1e6": "verify() at 1e6 keys; limit: the fused floor with only digests in its table",
  "verify/idiomatic-1e6": "verify() at 1e6 keys; peer: a straightforward implementation",
  "verify/previous-release": "verify() at 1e5 keys; compared with the library of the previous release, 0.1.0",
  "verify/address-list":
    "verify() of a key with 50 IPv4 networks, from an address in them; compared with the same key without a list",
  "verify/address-list-ipv6":
    "verify() of a key with 50 IPv6 networks, from an address in them; compared with the same key without a list",
  "verify/address-list-memory": "memory of a distinct list of 5 networks; limit: 600 B",
  "verify/prefix-4": "verify() of a key with a prefix of 4 characters; compared with one that begins with kr",
  "verify/prefix-9": "verify() of a key with a prefix of 9 characters; compared with one that begins with kr",
  "verify/prefixed-api-key": "verify() at 1e5 keys; peer: prefixed-api-key's check of one key",
  "verify/better-auth-wal": "checks per second at 1e5 keys; peer: better-auth (WAL+NORMAL, one key)",
  "verify/better-auth-memory": "checks per second at 1e5 keys; peer: better-auth (in memory, one key)",
  "verify/resident-memory": "resident memory of 1e6 keys; limit: 150 B/key",
  "verify/memory-in-use": "memory in use by 1e6 keys; limit: 150 B/key",
  "verify/delta": "a delta of one key on 1e6 keys; compared with 1e4 keys",
  "verify/load": "loading a snapshot of 1e5 keys; limit: JSON.parse of it",

  "ratelimit/check": "ratelimit/check over HTTP; limit: bare node:http",

  "limiter/check": "check in process; peer: rate-limiter-flexible on the same counter name",
  "limiter/check-bare-id": "check in process; peer: rate-limiter-flexible on a bare id",
  "limiter/redis-check": "check on Redis, 50 in flight; peer: rate-limiter-flexible",
  "limiter/lease": "leased units, 50 in flight; limit: Redis PING",

  "lanes/check": "CPU time of ratelimit/check by the fast lane; compared with h3 alone",
  "lanes/lease": "CPU time of ratelimit/lease by the fast lane; compared with h3 alone",
  "lanes/return": "CPU time of ratelimit/return by the fast lane; compared with h3 alone",
  "lanes/claim": "CPU time of idempotency/claim by the fast lane; compared with h3 alone",
  "lanes/complete": "CPU time of idempotency/complete by the fast lane; compared with h3 alone",
  "lanes/release": "CPU time of idempotency/release by the fast lane; compared with h3 alone",
  "lanes/heartbeat": "CPU time of idempotency/heartbeat by the fast lane; compared with h3 alone",
  "lanes/ingest": "CPU time of ingest/batch of one event by the fast lane; compared with h3 alone",
  "lanes/delta": "CPU time of policy/delta, 304 by the fast lane; compared with h3 alone",
  "lanes/snapshot": "CPU time of policy/snapshot of a small project by the fast lane; compared with h3 alone",
  "lanes/mint": "CPU time of POST /v1/keys by the fast lane; compared with h3 alone",
  "lanes/get-by-id": "CPU time of GET /v1/keys/{id} by the fast lane; compared with h3 alone",

  "faults/killed": "p99 of ratelimit/check while Redis is killed, 50 clients; limit: 250 ms",
  "faults/paused": "p99 of ratelimit/check while Redis is paused, 50 clients; limit: 250 ms",
  "faults/flushed": "p99 of ratelimit/check while Redis is flushed, 50 clients; limit: 250 ms",

  "ingest/batch": "ingest, µs per event; limit: JSON.parse of the batch",
  "ingest/fold":
    "adding the journal of these batches to the series later, µs per event; limit: JSON.parse of the batch",
  "ingest/series":
    "ingest of batches over 1,000 keys with usage series, µs per event; compared with KEYRACK_SERIES=off",
  "ingest/events": "ingest, events per second in process; target: 200,000",

  "timing/login": "login with a wrong password, a known address; compared with an unknown one",

  "start/binary-ready": "binary: serve ready; limit: bare node + 400 ms",
  "start/binary-cpu": "binary: CPU time until serve is ready; peer: node -e 0",
  "start/binary-command": "binary: a command over HTTP; peer: node -e 0",
  "start/binary-memory": "binary: RSS when idle; limit: 120 MB",
  "start/binary-anonymous": "binary: memory when idle that is no file's; limit: 50 MB",
  "start/checkout-ready": "checkout: serve ready; limit: bare node + 400 ms",
  "start/checkout-cpu": "checkout: CPU time until serve is ready; peer: node -e 0",
  "start/checkout-command": "checkout: a command over HTTP; peer: node -e 0",
  "start/checkout-memory": "checkout: RSS when idle; limit: 120 MB",
  "start/checkout-anonymous": "checkout: memory when idle that is no file's; limit: 50 MB",

  "install/first-key": "fresh clone to a minted key, empty npm cache; limit: five minutes",
  "install/install": "of which ./install.sh (npm ci and the build)",
  "install/serve-and-mint": "of which serve, workspace, project, tenant, key",
  "install/again": "./install.sh a second time",
} as const;

export type RowName = keyof typeof ROWS;
