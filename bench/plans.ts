// The query plans of every request that searches or filters, at a million keys and audit rows with statistics on both
// databases: none may scan or sort a large table, nor hold the event loop. It takes long: .ci/nightly runs it.
// KEYRACK_BENCH_KEYS makes it smaller.
import { openRaw, type Raw } from "../harness/databases/raw-sql.ts";
import { inline, sqlLiteral } from "../harness/databases/plans.ts";
import type { Query } from "../src/store/engine/tx.ts";
import type { Store } from "../src/store/store.ts";
import { openClient, requestsOf, Turns, type Request } from "./large-requests.ts";
import { withLarge, type Large } from "./large.ts";
import { KEYS } from "./million.ts";

const TENANTS = KEYS / 20;
/** A table with fewer rows may be scanned. */
const LARGE_ROWS = 5_000;
/** Rows that one part of a plan reads or sorts at most: a page examines 5,000, in up to four ranges. */
const ROWS_MAX = 20_000;
/** PostgreSQL chooses between a plan for the values and one for all values after five executions. */
const EXECUTIONS = 7;
const ROUNDS = 10;
const HELD_P99_MS = 20;

type Value = string | number | null;
type Sql = { sql: string; values: readonly Value[] };
type Found = { request: string; problem: string; sql: string };

/** Statements that the store reads with, each text once a request. */
class Statements {
  readonly #queries = new Map<string, Sql>();

  constructor(store: Store) {
    const { read } = store;
    const [all, first, memoized] = [read.all.bind(read), read.first.bind(read), read.firstMemoized.bind(read)];
    const onThread = store.readOnThread.bind(store);
    read.all = (query) => all(this.#seen(query));
    read.first = (query) => first(this.#seen(query));
    read.firstMemoized = (query) => memoized(this.#seen(query));
    // Counts of everything run there, in slots, and hold no event loop.
    store.readOnThread = (query) => onThread(query.sql.startsWith("select count(") ? query : this.#seen(query));
  }

  #seen(query: Query): Query {
    this.#queries.set(query.sql, { sql: query.sql, values: query.values as Value[] });
    return query;
  }

  take(): Sql[] {
    const seen = [...this.#queries.values()];
    this.#queries.clear();
    return seen;
  }
}

type Explain = (query: Sql) => Promise<string[]>;

async function explainSqlite(raw: Raw): Promise<Explain> {
  const tables = await raw.all(`select distinct tbl from sqlite_stat1 where cast(stat as integer) >= ${LARGE_ROWS}`);
  const large = tables.map(({ tbl }) => String(tbl));
  return async ({ sql, values }) => {
    // A plan names a table by its alias.
    const aliases = [...sql.matchAll(new RegExp(`"(?:${large.join("|")})" as "(\\w+)"`, "g"))].map(([, name]) => name);
    const scan = new RegExp(`^SCAN (?:${[...large, ...aliases].join("|")})\\b`);
    const steps = await raw.all(`explain query plan ${inline(sql, values)}`);
    return steps.map(({ detail }) => String(detail)).filter((step) => scan.test(step));
  };
}

/** A part of a plan that was executed. */
type Part = {
  "Node Type": string;
  "Relation Name"?: string;
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Index Recheck"?: number;
  Plans?: Part[];
};

async function explainPostgres(raw: Raw): Promise<Explain> {
  const tables = await raw.all(`select relname from pg_class where relkind = 'r' and reltuples >= ${LARGE_ROWS}`);
  const large = new Set(tables.map(({ relname }) => String(relname)));
  return async ({ sql, values }) => {
    const literals = values.map((value) => (value === null ? "null" : sqlLiteral(String(value))));
    await raw.all(`prepare explained as ${sql}`);
    const execute = `execute explained${values.length > 0 ? `(${literals.join(", ")})` : ""}`;
    const problems: string[] = [];
    for (let n = 1; n <= EXECUTIONS; n++) {
      const rows = await raw.all(`explain (analyze, timing off, format json) ${execute}`);
      const explained = rows.flatMap((row) => row["QUERY PLAN"] as unknown as { Plan: Part }[]);
      if (n === 1 || n === EXECUTIONS) problems.push(...explained.flatMap(({ Plan }) => problemsOf(Plan, large)));
    }
    await raw.all("deallocate explained");
    return problems;
  };
}

function problemsOf(part: Part, large: ReadonlySet<string>): string[] {
  const { "Node Type": type, "Relation Name": table = "", Plans: parts = [] } = part;
  const removed = (part["Rows Removed by Filter"] ?? 0) + (part["Rows Removed by Index Recheck"] ?? 0);
  const rows = (part["Actual Rows"] + removed) * part["Actual Loops"];
  const problems = parts.flatMap((each) => problemsOf(each, large));
  if (type === "Seq Scan" && large.has(table)) problems.push(`sequential scan of ${table}`);
  if (type.endsWith("Scan") && large.has(table) && rows > ROWS_MAX)
    problems.push(`${type} of ${rows} rows of ${table}`);
  if (type === "Sort" && (parts[0]?.["Actual Rows"] ?? 0) > ROWS_MAX)
    problems.push(`sort of ${parts[0]?.["Actual Rows"]} rows`);
  return problems;
}

/** What else reads much. */
function moreRequests({ project_id, tenant_ids }: Large): Request[] {
  const bulk = (name: string, filter: object): Request => {
    return { name, path: "/v1/bulk/keys", body: { action: "revoke", dry_run: true, filter } };
  };
  const get = (path: string): Request => ({ name: path, path: `/v1/${path}` });
  return [
    get("keys"),
    get(`keys?tenant_id=${tenant_ids[0]}`),
    get(`keys?project_id=${project_id}&state=active`),
    get(`keys?q=service&state=disabled`),
    get("tenants"),
    get("tenants?state=suspended"),
    get(`nodes?project_id=${project_id}`),
    bulk("bulk of one tenant's active keys", { tenant_id: tenant_ids[0], state: "active" }),
    bulk("bulk of a project's idle keys", { project_id, unused_since: new Date().toISOString() }),
    bulk("bulk of all keys", { all: true }),
  ];
}

/** The tenants are indexed in the background, and searches are refused until then. */
async function waitForIndex(client: ReturnType<typeof openClient>): Promise<void> {
  for (let isIndexed = false; !isIndexed; )
    try {
      await client.send({ name: "first search", path: "/v1/keys?q=service" });
      isIndexed = true;
    } catch (error) {
      if (!String(error).includes("search index")) throw error;
    }
}

async function examine(large: Large): Promise<{ found: Found[]; statements: number; p99: number }> {
  const raw = await openRaw(large.target);
  const explain = large.target.kind === "sqlite" ? await explainSqlite(raw) : await explainPostgres(raw);
  const client = openClient(large);
  await waitForIndex(client);
  const turns = new Turns();
  const read = new Statements(large.app.services.store);
  const found: Found[] = [];
  const held: number[] = [];
  let statements = 0;
  try {
    for (const request of [...requestsOf(large), ...moreRequests(large)]) {
      for (let round = 0; round < ROUNDS; round++) {
        turns.longest();
        await client.send(request);
        held.push(turns.longest());
      }
      for (const query of read.take()) {
        statements++;
        const problems = await explain(query);
        found.push(...problems.map((problem) => ({ request: request.name, problem, sql: query.sql })));
      }
    }
  } finally {
    turns.stop();
    await client.close();
    await raw.close();
  }
  const p99 = held.toSorted((a, b) => a - b)[Math.floor(held.length * 0.99)] ?? 0;
  return { found, statements, p99 };
}

async function rowOf(backend: string): Promise<string> {
  const { found, statements, p99 } = await withLarge(backend, { keys: KEYS, tenants: TENANTS }, examine);
  for (const { request, problem, sql } of found) console.error(`${backend}: ${request}: ${problem}\n  ${sql}`);
  if (found.length > 0 || p99 > HELD_P99_MS) process.exitCode = 1;
  return `| ${backend} | ${statements} | ${found.length} | ${p99.toFixed(2)} |`;
}

export async function plans(): Promise<string> {
  const rows = [await rowOf("sqlite"), await rowOf("postgres")];
  const columns = "| Database | Statements | Scans and sorts | Longest turn of a request, p99, ms |";
  return [columns, "|---|---|---|---|", ...rows].join("\n");
}
