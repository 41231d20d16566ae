// Makes one thing for every row of a CSV file. Each row carries an Idempotency-Key derived from the input, so that a
// second run, after whatever interruption, never makes a thing twice (the server remembers for 24 hours).
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { BulkOptions } from "./flags.ts";
import { openAppend, openState, type Appender, type BulkState } from "./state.ts";
import { csvLine, parseCsv } from "./csv.ts";
import { createProgress } from "../../ui/progress.ts";
import { isRefusal, refusalOf, request, type Target } from "../../api/request.ts";
import { ExitError, out, safe } from "../../ui/output.ts";
import { requireBearer, resolveTarget } from "../../api/target.ts";
import type { Flag, Verb } from "../../api/command-spec.ts";

export type Bulk = {
  file: string;
  verb: Verb;
  what: string;
  /** Fields that flags gave, for every row that does not name its own. */
  fixed: Record<string, unknown>;
  options: BulkOptions;
  /** Where the answers' keys are kept, as CSV. */
  keep?: string;
};

type Made = { id: string; key?: string; display_prefix?: string; tenant_id?: string; name?: string | null };
type Refusal = { row: number; message: string };

const AT_ONCE = 4;
const TRIES = 6;
const KEPT_COLUMNS = ["id", "key", "display_prefix", "tenant_id", "name"] as const;

function readInput(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new ExitError(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}.`, 2);
  }
}

function cellValue(flag: Flag, text: string, row: number): unknown {
  if (flag.kind === "list") return text.split(/[\s;]+/).filter(Boolean);
  if (flag.kind === "text") return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new ExitError(`Row ${row}: ${flag.name} is not valid JSON.`, 2);
  }
}

/** The request bodies, one a row. Everything is read before anything is made. */
function bodiesOf({ verb, fixed, file }: Bulk, text: string): Record<string, unknown>[] {
  const [head = [], ...rows] = parseCsv(text);
  const fields = verb.flags.filter((flag) => flag.in === "body");
  const columns = head.map((name) => {
    const flag = fields.find((field) => [field.name, field.flag].includes(name.trim()));
    if (!flag)
      throw new ExitError(
        `${file}: unknown column "${safe(name)}". Known: ${fields.map((f) => f.name).join(", ")}.`,
        2,
      );
    return flag;
  });
  return rows.map((cells, at) => {
    const body = { ...fixed };
    for (const [i, flag] of columns.entries()) {
      const cell = cells[i] ?? "";
      if (cell !== "") body[flag.name] = cellValue(flag, cell, at + 1);
    }
    const missing = fields.filter(({ required, name }) => required && body[name] === undefined);
    if (missing.length > 0)
      throw new ExitError(`Row ${at + 1}: ${missing.map(({ name }) => name).join(", ")} is missing.`, 2);
    return body;
  });
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** One row; a server that is busy is asked again. */
async function makeOne(target: Target, verb: Verb, body: unknown, idempotencyKey: string): Promise<Made> {
  const [method = "POST", path = "/"] = verb.route.split(" ");
  for (let attempt = 1; ; attempt++) {
    const answer = await request(target, { method, path, body, idempotencyKey });
    if (!isRefusal(answer)) return JSON.parse(answer.text) as Made;
    const retryAfter = Number(answer.headers["retry-after"]);
    const busy = answer.status === 429 || answer.status >= 500 || (answer.status === 409 && retryAfter > 0);
    if (!busy || attempt === TRIES) throw refusalOf(answer);
    await pause(Math.min(retryAfter > 0 ? retryAfter * 1_000 : 200 * 2 ** attempt, 10_000));
  }
}

function openKept(file: string | undefined): { add(made: Made): void; close(): void } {
  if (!file) return { add: () => {}, close: () => {} };
  const kept: Appender = openAppend(file);
  if (kept.lines.length === 0) kept.add(csvLine(KEPT_COLUMNS));
  const known = new Set(kept.lines.map((line) => line.split(",")[0]));
  return {
    add(made) {
      if (!known.has(made.id)) kept.add(csvLine(KEPT_COLUMNS.map((name) => made[name] ?? null)));
    },
    close: () => kept.close(),
  };
}

type Work = { bulk: Bulk; bodies: Record<string, unknown>[]; state: BulkState; run: string; target: Target };

/** A few at a time. Stops at the first row for which the server cannot be reached at all. */
async function makeAll({ bulk, bodies, state, run, target }: Work): Promise<Refusal[]> {
  const kept = openKept(bulk.keep);
  const progress = createProgress(bodies.length, bulk.what);
  const refused: Refusal[] = [];
  let next = 0;
  let unreachable: ExitError | undefined;
  const worker = async (): Promise<void> => {
    while (next < bodies.length && !unreachable) {
      const row = ++next;
      if (state.done.has(row)) continue;
      try {
        const made = await makeOne(target, bulk.verb, bodies[row - 1], `${run.slice(0, 32)}-${row}`);
        kept.add(made); // before the note: a key that is noted and not kept would be lost
        state.note(row, made.id);
        state.done.set(row, made.id);
      } catch (error) {
        if (!(error instanceof ExitError) || error.exitCode === 3) unreachable = error as ExitError;
        else refused.push({ row, message: error.message });
      }
      progress.at(state.done.size);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  progress.end();
  kept.close();
  if (unreachable) {
    const so = `${state.done.size} of ${bodies.length} ${bulk.what} are made; run the same command to go on.`;
    throw Object.assign(unreachable, { message: `${unreachable.message} ${so}` });
  }
  return refused.toSorted((a, b) => a.row - b.row);
}

export async function runBulk(bulk: Bulk): Promise<void> {
  const { file, what, options, keep } = bulk;
  const text = readInput(file);
  const bodies = bodiesOf(bulk, text);
  const target = requireBearer(resolveTarget(options));
  const run = createHash("sha256")
    .update(JSON.stringify([bulk.verb.route, target.url, bulk.fixed, text]))
    .digest("hex");
  const state = openState(`${file}.keyrack-state`, run, options.restart === true);
  const before = state.done.size;
  let refused: Refusal[];
  try {
    refused = await makeAll({ bulk, bodies, state, run, target });
  } finally {
    state.close();
  }
  const made = state.done.size - before;
  if (options.json)
    out(JSON.stringify({ object: "bulk", rows: bodies.length, made, made_before: before, refused, out: keep ?? null }));
  else if (options.quiet) for (const id of state.done.values()) out(id);
  else {
    const earlier = before > 0 ? ` ${before} were there from an earlier run.` : "";
    out(`Made ${made} ${what} of ${bodies.length} rows.${earlier}${keep ? ` The keys are in ${keep}.` : ""}`);
  }
  if (refused.length > 0) {
    const [first] = refused;
    const many = refused.length === 1 ? "1 row was refused:" : `${refused.length} rows were refused; the first is`;
    throw new ExitError(`${many} row ${first?.row}: ${first?.message}`, 1);
  }
}
