// The export of the audit log beside the same rows selected in pages, and the memory that it takes.
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { openRaw } from "../harness/databases/raw-sql.ts";
import { withLarge, type Large } from "./large.ts";
import { interleave, rowOf, type Row } from "./report.ts";

const ROWS = Number(process.env["KEYRACK_BENCH_KEYS"] ?? 1e5);
const PAGE = 1_000;
const ROUNDS = 5;
const MEMORY_MAX_MB = 20;
const SAMPLE_MS = 10;

/** A process of its own: the memory and the event loop of the client are not the server's. */
const CLIENT = `
import { get } from "node:http";
const [url, bearer] = process.argv.slice(1);
const start = performance.now();
get(url, { headers: { authorization: "Bearer " + bearer } }, (response) => {
  let lines = 0;
  response.on("data", (chunk) => {
    for (let at = -1; (at = chunk.indexOf(10, at + 1)) !== -1; ) lines++;
  });
  response.on("end", () => {
    if (response.statusCode !== 200 || lines < ${ROWS}) process.exit(1);
    console.log((performance.now() - start) / 1000);
  });
});`;

/** Rows a second, by the client's clock. */
async function exported({ app, bearer }: Large): Promise<number> {
  const args = ["--input-type=module", "-e", CLIENT, `${app.url}/v1/audit_logs/export`, bearer];
  const client = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const seconds = Number(await text(client.stdout));
  if (!(seconds > 0)) throw new Error("the export is not whole");
  return ROWS / seconds;
}

async function selected({ target, actor }: Large): Promise<number> {
  const raw = await openRaw(target);
  const start = performance.now();
  const page = `select * from audit_log where workspace_id = $1 and seq > $2 order by seq limit ${PAGE}`;
  for (let after = 0, size = PAGE; size === PAGE; ) {
    const rows = await raw.all(page, [actor.workspace_id, after]);
    after = Number(rows.at(-1)?.seq);
    size = rows.length;
  }
  const seconds = (performance.now() - start) / 1_000;
  await raw.close();
  return ROWS / seconds;
}

/** The largest growth of memory meanwhile, in MB. */
async function growth(work: () => Promise<unknown>): Promise<number> {
  const before = process.memoryUsage.rss();
  let most = before;
  const sampling = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), SAMPLE_MS);
  await work();
  clearInterval(sampling);
  return (most - before) / 1e6;
}

export function auditExport(): Promise<Row[]> {
  return withLarge("sqlite", { keys: ROWS, tenants: 1_000 }, async (large) => {
    const rates = await interleave(ROUNDS, {
      exported: () => exported(large),
      selected: () => selected(large),
    });
    const grown = await growth(() => exported(large)); // the code is warm, the heap has its size
    return [
      rowOf("insight/audit-export", rates.exported, rates.selected, ">= 0.5", "/s"),
      rowOf("insight/audit-export-memory", grown, MEMORY_MAX_MB, "<= 1.0", "MB"),
    ];
  });
}
