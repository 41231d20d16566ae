// `keyrack audit list/verify/export/checkpoint`: over HTTP, straight on the database (--offline), or on an export (--file).
import { closeSync, openSync, writeSync } from "node:fs";
import type { Command } from "commander";
import type { OfflineOptions } from "./offline.ts";
import type { Verdict } from "./verify-rows.ts";
import { listTable } from "../../ui/format.ts";
import { fetchJson, isRefusal, refusalOf, request, type Target } from "../../api/request.ts";
import { ExitError, out } from "../../ui/output.ts";
import { outputFlags, requireBearer, resolveTarget, targetFlags, type TargetOptions } from "../../api/target.ts";
import { addVerbs, runVerb, verbOf, type VerbOptions } from "../../api/generated.ts";

type Options = OfflineOptions & TargetOptions;
type VerifyOptions = Options & { offline?: true; file?: string; checkpoint?: string; vkey?: string };
type ExportOptions = Options & { offline?: true; out?: string };
type Row = Record<string, unknown> & { seq: number; workspace_id: string };

const CHAIN = { method: "GET", path: "/v1/audit_logs/chain", timeoutMs: 600_000 };
const NOTE = { method: "GET", path: "/v1/audit_logs/checkpoint" };

function offlineFlags(command: Command): Command {
  return command
    .option("--offline", "read the database itself: no server, no credential")
    .option("--data-dir <dir>", "with --offline: folder that holds everything")
    .option("--database-url <url>", "with --offline: sqlite:FILE or postgres://…")
    .option("--config <file>", "with --offline: settings file")
    .option("--workspace-id <id>", "with --offline: only this workspace")
    .option("--deployment", "the deployment's own chain: what people and operators did");
}

export function addAuditCommands(program: Command): void {
  const audit = addVerbs(program, "audit", {
    list: {
      flags: offlineFlags,
      run: (verb, args, options) =>
        options.deployment || options.offline ? listHere(options) : runVerb("audit", "list", verb, args, options),
      examples: ["keyrack audit list --limit 100", "keyrack audit list --deployment --data-dir /var/lib/keyrack"],
    },
  });
  targetFlags(offlineFlags(outputFlags(audit.command("verify"), "print nothing; the exit code tells")))
    .description("Derive every hash again and name the first position that fails. Exit 4 when the log is broken.")
    .option("--file <export>", "check an export instead: no server, no database")
    .option("--checkpoint <note>", "file with a signed checkpoint: prove that the log extends it")
    .option("--vkey <key>", "verifier key of the checkpoint; keep it yourself, from `keyrack audit checkpoint --vkey`")
    .addHelpText(
      "after",
      "\nExamples:\n  keyrack audit verify\n  keyrack audit verify --file export.jsonl --checkpoint note.txt --vkey KEY",
    )
    .action((options: VerifyOptions) => verify(options));
  targetFlags(offlineFlags(outputFlags(audit.command("export"), "print nothing but the rows")))
    .description("Write the whole log as JSON Lines, as docs/audit-format.md describes.")
    .option("--out <file>", "file to write instead of stdout")
    .addHelpText(
      "after",
      "\nExamples:\n  keyrack audit export --out audit.jsonl\n  keyrack audit export --offline --data-dir /var/lib/keyrack > audit.jsonl",
    )
    .action((options: ExportOptions) => exportLog(options));
  targetFlags(outputFlags(audit.command("checkpoint"), "print only the note"))
    .description("Print the newest signed checkpoint. Keep it elsewhere: it shows when rows are taken away later.")
    .option("--vkey", "print the verifier key instead")
    .addHelpText(
      "after",
      "\nExamples:\n  keyrack audit checkpoint > note.txt\n  keyrack audit checkpoint --vkey > vkey.txt",
    )
    .action((options: TargetOptions & { json?: true; vkey?: true }) => checkpoint(options));
}

/** The deployment's chain comes from the instance, with the people behind its rows; --offline reads the bare rows. */
async function listHere(options: VerbOptions): Promise<void> {
  const [after, limit] = [Number(options.afterSeq ?? 0), Number(options.limit ?? 50)];
  if (!(after >= 0) || !(limit >= 1 && limit <= 200))
    throw new ExitError("--after-seq takes a number from 0, --limit one from 1 to 200.", 2);
  const list: { object: "list"; data: Record<string, unknown>[]; has_more?: true } = { object: "list", data: [] };
  if (options.offline) {
    const { readOffline } = await import("./offline.ts");
    await readOffline(options, { after, limit }, (row) => list.data.push(row));
  } else {
    const { operate } = await import("../../operator.ts");
    Object.assign(list, await operate(options, "audit.list", { after_seq: after, limit }));
  }
  if (options.json) return out(JSON.stringify(list));
  if (options.quiet) return list.data.forEach(({ id }) => out(String(id)));
  out(list.data.length === 0 ? "Nothing there." : listTable(list.data, verbOf("audit", "list").columns ?? []));
  if (list.has_more) out(`There are more: add --after-seq ${String(list.data.at(-1)?.seq)}`);
}

async function fetchNote(target: Target): Promise<{ note: string; vkey: string }> {
  const answer = await request(target, NOTE);
  if (isRefusal(answer)) throw refusalOf(answer);
  return { note: answer.text, vkey: String(answer.headers["audit-vkey"] ?? "") };
}

async function checkpoint(options: TargetOptions & { json?: true; vkey?: true }): Promise<void> {
  const got = await fetchNote(requireBearer(resolveTarget(options)));
  if (options.json) return out(JSON.stringify({ object: "audit_checkpoint", ...got }));
  process.stdout.write(options.vkey ? `${got.vkey}\n` : got.note);
}

/** Every row over HTTP, page by page. */
async function eachRow(target: Target, take: (row: Row) => void): Promise<void> {
  const { id: workspace_id } = await fetchJson<{ id: string }>(target, { method: "GET", path: "/v1/workspace" });
  for (let after: number | undefined = 0; after !== undefined; ) {
    const query = { after_seq: String(after), limit: "200" };
    const page: { data: Row[]; has_more?: true } = await fetchJson(target, {
      method: "GET",
      path: "/v1/audit_logs",
      query,
    });
    for (const { actor: _resolved, ...row } of page.data) take({ ...row, workspace_id });
    after = page.has_more ? page.data.at(-1)?.seq : undefined;
  }
}

function assertUnfiltered({ bearer }: Target): void {
  if (bearer?.startsWith("krsk_test_"))
    throw new ExitError("What a test secret key reads is filtered: use a live key, a session, or --offline.", 2);
}

function openOut(file: string): number {
  try {
    return openSync(file, "w", 0o600);
  } catch (error) {
    throw new ExitError(`${file} cannot be written: ${(error as NodeJS.ErrnoException).code}.`, 2);
  }
}

async function exportLog(options: ExportOptions): Promise<void> {
  const file = options.out === undefined ? 1 : openOut(options.out);
  let rows = 0;
  const take = (row: Record<string, unknown>): void => {
    writeSync(file, `${JSON.stringify(row)}\n`);
    rows++;
  };
  try {
    if (options.offline || options.deployment) {
      const { readOffline } = await import("./offline.ts");
      await readOffline(options, { after: 0, limit: Infinity }, take);
    } else {
      const target = requireBearer(resolveTarget(options));
      assertUnfiltered(target);
      await eachRow(target, take);
    }
  } finally {
    if (options.out !== undefined) closeSync(file);
  }
  if (options.out === undefined || options.quiet) return;
  out(
    options.json
      ? JSON.stringify({ object: "audit_export", rows, out: options.out })
      : `${rows} rows are in ${options.out}.`,
  );
}

async function verify(options: VerifyOptions): Promise<void> {
  if (options.file && options.offline)
    throw new ExitError("--file and --offline are two different ways: choose one.", 2);
  if (options.file || options.offline || options.deployment) return report(await verifyHere(options), options);
  const target = requireBearer(resolveTarget(options));
  if (options.checkpoint) return report(await verifyByCheckpoint(target, options), options);
  const answer = await request(target, CHAIN);
  if (isRefusal(answer)) throw refusalOf(answer);
  const chain = JSON.parse(answer.text) as Verdict;
  if (options.json) out(answer.text.trimEnd());
  else if (!options.quiet && chain.verified) out(`The log is whole: ${chain.checked} rows, head ${chain.head_hash}.`);
  if (!chain.verified) throw broken(chain);
}

/** On the database, or on an export. */
async function verifyHere(options: VerifyOptions): Promise<Verdict[]> {
  const { openSigned, readNote } = await import("./verify-rows.ts");
  const note = options.checkpoint === undefined ? undefined : readNote(options.checkpoint);
  if (options.file) {
    if (note !== undefined && !options.vkey)
      throw new ExitError("--checkpoint needs --vkey here: nobody else can vouch for the note.", 2);
    const { verifyFile } = await import("./verify-file.ts");
    return verifyFile(options.file, note === undefined ? undefined : openSigned(note, options.vkey ?? ""));
  }
  const { storedVkey, verifyOffline } = await import("./offline.ts");
  return verifyOffline(options, async (source) => {
    if (note === undefined) return undefined;
    const workspace_id = /\/audit\/([0-9a-f-]{36})\n/.exec(note)?.[1] ?? "";
    return openSigned(note, options.vkey ?? (await storedVkey(source, workspace_id)) ?? "");
  });
}

async function verifyByCheckpoint(target: Target, options: VerifyOptions): Promise<Verdict[]> {
  const { LogCheck, openSigned, readNote } = await import("./verify-rows.ts");
  const key = options.vkey ?? (await fetchNote(target)).vkey;
  assertUnfiltered(target);
  const check = new LogCheck(openSigned(readNote(options.checkpoint ?? ""), key));
  await eachRow(target, (row) => check.take(row as never));
  return check.verdicts();
}

function broken({ broken_seq, reason, checked }: Verdict): ExitError {
  return new ExitError(`The log is BROKEN at seq ${broken_seq}: ${reason}. ${checked} rows before it are good.`, 4);
}

function report(verdicts: Verdict[], options: VerifyOptions): void {
  const bad = verdicts.find(({ verified }) => !verified);
  if (options.json)
    out(JSON.stringify({ object: "audit_verification", verified: bad === undefined, chains: verdicts }));
  else if (!options.quiet) for (const verdict of verdicts) out(sentence(verdict));
  if (!options.json && !options.quiet && verdicts.length === 0) out("No rows.");
  if (!options.json && !options.quiet && options.file && !options.checkpoint)
    out("No checkpoint was given: rows missing at the end would not be noticed.");
  if (bad) throw broken(bad);
}

function sentence({
  workspace_id,
  verified,
  checked,
  head_hash,
  broken_seq,
  reason,
  checkpoint_size,
}: Verdict): string {
  if (!verified) return `${workspace_id}: BROKEN at seq ${broken_seq}: ${reason}; ${checked} rows before it are good.`;
  const extended = checkpoint_size === null ? "" : `; it extends the checkpoint of ${checkpoint_size}`;
  return `${workspace_id}: whole, ${checked} rows, head ${head_hash}${extended}.`;
}
