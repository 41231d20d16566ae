// Creates one record for every row of a CSV file. Each row has an Idempotency-Key derived from the input and its path,
// so that a repeated run never creates a record twice, however the first one ended (the server keeps the keys for 24
// hours), while another file with the same contents creates its own.
import { hash } from "node:crypto";
import { resolve } from "node:path";
import { csvRow } from "../../../kernel/text/csv.ts";
import type { CommandSpec, FlagSpec } from "../../api/command-spec.ts";
import { parseJson, type Target } from "../../api/request.ts";
import { requireBearer, resolveTarget } from "../../api/target.ts";
import { ExitError, escapeControls, plural, readTextFile } from "../../ui/output.ts";
import { createProgressBar } from "../../ui/progress.ts";
import { AppendError, openAppend } from "./append-file.ts";
import { parseCsv } from "./csv.ts";
import type { BulkOptions } from "./flags.ts";
import { printerBeside } from "./inherited.ts";
import { sendUntilDone, sendWithRetries } from "./retry.ts";
import { openState, type ImportState, type RunHead } from "./state.ts";

export type CsvImport = {
  file: string;
  spec: CommandSpec;
  noun: string;
  /** Fields given by flags, for rows without a value of their own. */
  defaults: Record<string, unknown>;
  options: BulkOptions;
  /** The field in which no two rows may agree. */
  unique?: string;
  /** CSV file that receives the created keys. */
  keysFile?: string;
  /** Whether a flag names that file. */
  isKeysFileNamed?: boolean;
};

type Created = { id: string; key?: string; display_prefix?: string; tenant_id?: string; name?: string | null };
type Refusal = { row: number; message: string };

const CONCURRENCY = 4;
const KEY_COLUMNS = ["id", "key", "display_prefix", "tenant_id", "name"] as const;

function parseCell(flag: FlagSpec, text: string, row: number): unknown {
  if (flag.kind === "list" && !text.startsWith("[")) return text.split(/[\s;]+/).filter(Boolean);
  if (flag.kind === "text") return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new ExitError(`Row ${row}: ${flag.name} is not valid JSON.`, 2);
  }
}

/** The request bodies, one per row. The whole file is checked before anything is created. */
function parseRows(csvImport: CsvImport, text: string): Record<string, unknown>[] {
  const { spec, defaults, file } = csvImport;
  const [head = [], ...rows] = parseCsv(text);
  const fields = spec.flags.filter((flag) => flag.in === "body");
  const columns = head.map((name) => {
    const flag = fields.find((field) => [field.name, field.flag].includes(name.trim()));
    if (!flag)
      throw new ExitError(
        `${file}: unknown column "${escapeControls(name)}". Known columns: ${fields.map((f) => f.name).join(", ")}.`,
        2,
      );
    return flag;
  });
  const repeated = columns.find((flag, i) => columns.indexOf(flag) !== i);
  if (repeated) throw new ExitError(`${file}: column "${repeated.name}" appears twice.`, 2);
  const bodies = rows.map((cells, at) => {
    // A shifted or dropped cell would mint a key with another expiry than the file says.
    if (cells.length !== columns.length)
      throw new ExitError(`Row ${at + 1}: ${plural(cells.length, "cell")} for ${plural(columns.length, "column")}.`, 2);
    const body = { ...defaults };
    for (const [i, flag] of columns.entries()) {
      const cell = cells[i] ?? "";
      if (cell !== "") body[flag.name] = parseCell(flag, cell, at + 1);
    }
    const missing = fields.filter(({ required, name }) => required && body[name] === undefined);
    if (missing.length > 0)
      throw new ExitError(`Row ${at + 1}: missing ${missing.map(({ name }) => name).join(", ")}.`, 2);
    return body;
  });
  if (csvImport.unique) requireUnique(bodies, csvImport.unique);
  return bodies;
}

/** Rows are created concurrently: of two with one value, either could be the one that is refused. */
function requireUnique(bodies: readonly Record<string, unknown>[], field: string): void {
  const first = new Map<unknown, number>();
  for (const [at, body] of bodies.entries()) {
    const earlier = first.get(body[field]);
    if (earlier !== undefined) throw new ExitError(`Row ${at + 1}: ${field} is the same as in row ${earlier}.`, 2);
    first.set(body[field], at + 1);
  }
}

type Made = { created: Created; isReplay: boolean };

/** Creates one row's record, unless an earlier run has. Retries with back-off while the server is busy. */
async function createOne(target: Target, spec: CommandSpec, body: unknown, idempotencyKey: string): Promise<Made> {
  const [method = "POST", path = "/"] = spec.route.split(" ");
  const response = await sendWithRetries(target, { method, path, body, idempotencyKey });
  return { created: parseJson(response) as Created, isReplay: response.headers["idempotent-replayed"] === "true" };
}

/** How the Idempotency-Keys of a run begin. Earlier versions did not note the file. */
function keyPrefix({ run, file }: RunHead): string {
  return (file === undefined ? run : hash("sha256", `${run} ${file}`)).slice(0, 32);
}

function openKeysFile({ keysFile, isKeysFileNamed }: CsvImport): { append(created: Created): void; close(): void } {
  if (!keysFile) return { append: () => {}, close: () => {} };
  const keys = openAppend(keysFile, isKeysFileNamed ? "named" : "derived");
  if (keys.lines.length === 0) keys.append(`${csvRow(KEY_COLUMNS)}\n`);
  const known = new Set(keys.lines.map((line) => line.split(",")[0]));
  return {
    append(created) {
      if (!known.has(created.id)) keys.append(`${csvRow(KEY_COLUMNS.map((name) => created[name] ?? null))}\n`);
    },
    close: () => keys.close(),
  };
}

type Work = {
  csvImport: CsvImport;
  bodies: Record<string, unknown>[];
  state: ImportState;
  target: Target;
};

type Outcome = { refused: Refusal[]; replays: number };

/** Creates all rows, a few at a time. Stops when the server is unreachable or a file cannot be written. */
async function createAll({ csvImport, bodies, state, target }: Work): Promise<Outcome> {
  const keys = openKeysFile(csvImport);
  const progress = createProgressBar(bodies.length, `${csvImport.noun}s`);
  const refused: Refusal[] = [];
  const prefix = keyPrefix(state.head);
  let replays = 0;
  let next = 0;
  let failure: ExitError | undefined;
  const worker = async (): Promise<void> => {
    while (next < bodies.length && !failure) {
      const row = ++next;
      if (state.done.has(row)) continue;
      try {
        const { created, isReplay } = await createOne(target, csvImport.spec, bodies[row - 1], `${prefix}-${row}`);
        keys.append(created); // before markDone: a key marked as done but not written would be lost
        state.markDone(row, created.id);
        if (isReplay) replays++;
      } catch (error) {
        if (error instanceof ExitError && error.exitCode !== 3 && !(error instanceof AppendError))
          refused.push({ row, message: error.message });
        else failure = error as ExitError;
      }
      progress.update(state.done.size);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  progress.end();
  keys.close();
  if (failure) {
    const soFar = `${state.done.size} of ${plural(bodies.length, csvImport.noun)} created. Run the same command to continue.`;
    throw Object.assign(failure, { message: `${failure.message} ${soFar}` });
  }
  return { refused: refused.toSorted((a, b) => a.row - b.row), replays };
}

export async function importCsv(csvImport: CsvImport): Promise<void> {
  const { file, noun, options, keysFile } = csvImport;
  const print = printerBeside(keysFile);
  const text = readTextFile(file);
  const bodies = parseRows(csvImport, text);
  const target = requireBearer(resolveTarget(options));
  const run = hash("sha256", JSON.stringify([csvImport.spec.route, target.url, csvImport.defaults, text]));
  const workspace = await sendUntilDone<{ id: string }>(target, { method: "GET", path: "/v1/workspace" });
  const out = keysFile !== undefined && { out: resolve(keysFile) };
  const head = { run, file: resolve(file), workspace_id: workspace.id, ...out };
  const state = openState(`${file}.keyrack-state`, head, options.restart === true);
  const noted = state.done.size;
  let outcome: Outcome;
  try {
    outcome = await createAll({ csvImport, bodies, state, target });
  } finally {
    state.close();
  }
  const { refused, replays } = outcome;
  const before = noted + replays;
  const made = state.done.size - before;
  if (options.json)
    print(
      JSON.stringify({
        object: "bulk",
        rows: bodies.length,
        made,
        made_before: before,
        refused,
        out: keysFile ?? null,
      }),
    );
  else if (options.quiet) for (const id of state.done.values()) print(id);
  else {
    const earlier = before > 0 ? ` An earlier run created ${before}.` : "";
    const keys = keysFile ? ` The keys are in ${keysFile}.` : "";
    print(`Created ${plural(made, noun)} from ${plural(bodies.length, "row")}.${earlier}${keys}`);
  }
  const [first] = refused;
  if (first) {
    const count = refused.length === 1 ? "1 row failed." : `${refused.length} rows failed. The first:`;
    throw new ExitError(`${count} Row ${first.row}: ${first.message}`, 1);
  }
}
