// `keyrack audit export`: the log, or the rows that match filters, as JSON Lines.
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeFileSync } from "node:fs";
import { Writable } from "node:stream";
import type { CommandSpec } from "../../api/command-spec.ts";
import { buildRequest, type ApiOptions } from "../../api/send.ts";
import { ApiError, download, type ApiRequest, type Target } from "../../api/request.ts";
import { requireBearer, resolveTarget } from "../../api/target.ts";
import { ExitError, fileError, plural, printResult } from "../../ui/output.ts";
import { openReplaced, type ReplacedFile } from "../../ui/replaced-file.ts";
import { terminalLines } from "../../ui/terminal-lines.ts";
import { readLog, refusePartialView } from "./log.ts";

type ExportFlags = { offline?: true; deployment?: true; out?: string; resume?: true };

const CHUNK = 65_536;
const NEWLINE = 10;
/** How a row begins: as the server streams it, and as it is read in pages or from the database. */
const ROW_STARTS = ['{"action":"', '{"object":"audit_log"'];

export async function exportLog(spec: CommandSpec, options: ApiOptions): Promise<void> {
  const { offline, deployment, out, resume } = options as ExportFlags;
  const message = buildRequest(spec, [], options);
  const { after_seq = "0", ...filters } = message.query ?? {};
  const isLocal = offline === true || deployment === true;
  if (resume && (out === undefined || isLocal)) throw new ExitError("--resume needs --out and a server.", 2);
  if (isLocal && Object.keys(filters).length > 0)
    throw new ExitError("With --offline or --deployment only --after-seq selects rows.", 2);
  const target = isLocal ? null : requireBearer(resolveTarget(options));
  if (target) refusePartialView(target);
  const { file, after } = out === undefined ? { file: undefined, after: 0 } : openOut(out, resume);
  const from = Math.max(Number(after_seq), after);
  const rows = new RowOutput(file);
  try {
    if (target) await streamLog(target, { ...message, query: { ...filters, after_seq: String(from) } }, rows);
    else {
      const { readOffline } = await import("./offline.ts");
      await readOffline(options, { after: from, limit: Infinity }, (row) => rows.take(row));
    }
    file?.finish();
  } catch (error) {
    const isCut = error instanceof ExitError && error.exitCode === 3 && out !== undefined && !isLocal;
    throw isCut ? new ExitError(`${error.message} Continue with --resume.`, 3) : error;
  } finally {
    file?.close();
  }
  if (out === undefined) return;
  const human = `Exported ${plural(rows.count, "row")} to ${out}.`;
  printResult(options, { json: { object: "audit_export", rows: rows.count, out }, quiet: "", human });
}

/** Rows for a file, or for stdout without one. */
class RowOutput extends Writable {
  readonly #file: ReplacedFile | undefined;
  readonly #stdout = process.stdout.isTTY ? terminalLines() : process.stdout;
  count = 0;

  constructor(file: ReplacedFile | undefined) {
    super();
    this.#file = file;
  }

  take(row: Record<string, unknown>): void {
    this.#append(Buffer.from(`${JSON.stringify(row)}\n`));
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    try {
      this.#append(chunk, done);
    } catch (error) {
      done(error as Error);
    }
  }

  #append(bytes: Buffer, done?: (error?: Error | null) => void): void {
    for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) this.count++;
    if (!this.#file) return void this.#stdout.write(bytes, done);
    this.#file.append(bytes);
    done?.();
  }
}

/** Release 0.1 has no such route: the whole log is read in pages. */
async function streamLog(target: Target, message: ApiRequest, rows: RowOutput): Promise<void> {
  try {
    await download(target, message, rows);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    const { after_seq, ...filters } = message.query ?? {};
    if (Object.keys(filters).length > 0)
      throw new ExitError("This server cannot filter an export. Upgrade it, or export the whole log.", 1);
    await readLog(target, (row) => rows.take(row), Number(after_seq));
  }
}

function openOut(file: string, resume = false): { file: ReplacedFile; after: number } {
  if (!resume) return { file: openReplaced(file), after: 0 };
  let fd: number;
  try {
    fd = openSync(file, "a+", 0o600);
  } catch (error) {
    throw fileError("write", file, error);
  }
  const after = dropTornLine(fd, file);
  const append = (bytes: Buffer): void => writeFileSync(fd, bytes);
  return { file: { append, finish: () => {}, close: () => closeSync(fd) }, after };
}

/** Truncates the file to its last whole line and returns the seq of that; 0 if it has only a part of a row. */
function dropTornLine(fd: number, file: string): number {
  const { size } = fstatSync(fd);
  let tail = Buffer.alloc(0);
  while (tail.length < size && tail.indexOf(NEWLINE) === tail.lastIndexOf(NEWLINE)) {
    const chunk = Buffer.alloc(Math.min(CHUNK, size - tail.length));
    readSync(fd, chunk, 0, chunk.length, size - tail.length - chunk.length);
    tail = Buffer.concat([chunk, tail]);
  }
  if (size === 0) return 0;
  const end = tail.lastIndexOf(NEWLINE) + 1;
  const whole = tail.subarray(0, Math.max(0, end - 1));
  const isTornRow = end === 0 && ROW_STARTS.some((start) => startsAlike(tail.toString("latin1"), start));
  const seq = isTornRow ? 0 : seqOf(whole.subarray(whole.lastIndexOf(NEWLINE) + 1).toString("utf8"));
  if (seq === null) throw new ExitError(`The last whole line of ${file} is not a row of the audit log.`, 2);
  ftruncateSync(fd, size - tail.length + end);
  return seq;
}

function startsAlike(a: string, b: string): boolean {
  return a.startsWith(b) || b.startsWith(a);
}

function seqOf(line: string): number | null {
  try {
    const { object, seq } = JSON.parse(line) as Record<string, unknown>;
    return object === "audit_log" && Number.isSafeInteger(seq) ? (seq as number) : null;
  } catch {
    return null;
  }
}
