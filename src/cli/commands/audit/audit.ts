// `keyrack audit list/verify/export/checkpoint`: over HTTP, directly on the database (--offline) or on an export
// (--file).
import type { Command, OptionValues } from "commander";
import type { CommandSpec } from "../../api/command-spec.ts";
import { addApiCommands } from "../../api/generated.ts";
import { buildRequest, runApiCommand, type ApiOptions } from "../../api/send.ts";
import { requireBearer, resolveTarget, targetFlags, type TargetOptions } from "../../api/target.ts";
import { listText, moreText, type List } from "../../ui/format.ts";
import { ExitError, examples, outputFlags, print, toFlag, type OutputOptions } from "../../ui/output.ts";
import { fetchCheckpoint } from "./log.ts";
import type { VerifyOptions } from "./verify.ts";

function offlineFlags(command: Command): Command {
  return command
    .option("--offline", "read the database directly: needs no server and no credential")
    .option("--data-dir <dir>", "with --offline: folder with the database")
    .option("--database-url <url>", "with --offline: sqlite:FILE or postgres://…")
    .option("--config <file>", "with --offline: settings file")
    .option("--workspace-id <id>", "with --offline: only this workspace")
    .option("--deployment", "the deployment's own chain: actions of people and operators");
}

export function addTo(program: Command): void {
  const audit = addApiCommands(program, "audit", {
    list: {
      flags: (command) =>
        offlineFlags(command).option("--tail <rows>", "the newest rows, newest first; instead of --limit and --order"),
      run: (spec, args, options) => {
        refuseUnused(options);
        const isLocal = options.deployment || options.offline;
        return isLocal ? listLocal(spec, options) : runApiCommand(spec, args, withTail(options));
      },
    },
    export: {
      flags: (command) =>
        offlineFlags(command)
          .option("--out <file>", "file to write instead of stdout")
          .option("--resume", "with --out: continue after the last whole line of the file"),
      run: async (spec, _args, options) => {
        refuseUnused(options);
        return (await import("./export.ts")).exportLog(spec, options);
      },
    },
  });
  targetFlags(offlineFlags(outputFlags(audit.command("verify"), "print nothing; use the exit code")))
    .description("Recompute every hash and report the first invalid row. Exit 4 if the log is broken.")
    .option("--file <export>", "verify an export: needs no server and no database")
    .option("--checkpoint <note>", "signed checkpoint file: prove that the log extends it")
    .option("--vkey <key>", "verifier key of the checkpoint; keep your own copy of `keyrack audit checkpoint --vkey`")
    .addHelpText(
      "after",
      examples(["keyrack audit verify", "keyrack audit verify --file export.jsonl --checkpoint note.txt --vkey KEY"]),
    )
    .action(async (options: VerifyOptions) => {
      refuseUnused(options);
      return (await import("./verify.ts")).verify(options);
    });
  targetFlags(outputFlags(audit.command("checkpoint"), "print only the note"))
    .description("Print the newest signed checkpoint. Store it elsewhere: it proves later whether rows were removed.")
    .option("--vkey", "print the verifier key instead")
    .addHelpText(
      "after",
      examples(["keyrack audit checkpoint > note.txt", "keyrack audit checkpoint --vkey > vkey.txt"]),
    )
    .action((options: TargetOptions & OutputOptions & { vkey?: true }) => checkpoint(options));
}

const NEED_OFFLINE = ["dataDir", "databaseUrl", "config", "workspaceId"] as const;

/** A flag that would be ignored may be the one that says which log is meant. */
function refuseUnused(options: OptionValues): void {
  const { offline, deployment, workspaceId } = options;
  const unused = NEED_OFFLINE.find((name) => options[name] !== undefined);
  if (unused && !offline && !deployment)
    throw new ExitError(`${toFlag(unused)} needs --offline${unused === "workspaceId" ? "" : " or --deployment"}.`, 2);
  if (workspaceId !== undefined && deployment)
    throw new ExitError("--workspace-id and --deployment cannot be used together.", 2);
}

/** On a page, as the server has it. */
const ROWS_MAX = 200;

function withTail({ tail, ...options }: ApiOptions): ApiOptions {
  if (tail === undefined) return options;
  if (options.limit !== undefined || options.order !== undefined)
    throw new ExitError("--tail cannot be combined with --limit or --order.", 2);
  if (!/^\d{1,3}$/.test(tail as string) || Number(tail) < 1 || Number(tail) > ROWS_MAX)
    throw new ExitError(`--tail must be a whole number from 1 to ${ROWS_MAX}.`, 2);
  return { ...options, limit: tail, order: "desc" };
}

/** --deployment asks the instance, which adds the people behind the rows; --offline reads the bare rows. */
async function listLocal(spec: CommandSpec, options: ApiOptions): Promise<void> {
  if (options.tail !== undefined) throw new ExitError("--tail cannot be combined with --offline or --deployment.", 2);
  const { after_seq = 0, limit: count = 50, ...filters } = buildRequest(spec, [], options).query ?? {};
  if (Object.keys(filters).length > 0)
    throw new ExitError("With --offline or --deployment only --after-seq and --limit select rows.", 2);
  const [after, limit] = [Number(after_seq), Number(count)];
  if (after < 0 || limit < 1 || limit > ROWS_MAX)
    throw new ExitError(`--after-seq must be 0 or more, --limit from 1 to ${ROWS_MAX}.`, 2);
  const list = await (options.offline ? listOffline(options, after, limit) : listDeployment(options, after, limit));
  if (options.json) return print(JSON.stringify(list));
  if (options.quiet) {
    for (const { id } of list.data) print(String(id));
    const more = moreText(list);
    if (more) process.stderr.write(`${more}\n`);
    return;
  }
  print(listText(list, spec.columns));
}

async function listDeployment(options: ApiOptions, after: number, limit: number): Promise<List> {
  const { operate } = await import("../../operator.ts");
  return { ...(await operate(options, "audit.list", { after_seq: after, limit })) };
}

/** The first rows of each chain. Chains that have more come last: the last row is where the list continues. */
async function listOffline(options: ApiOptions, after: number, limit: number): Promise<List> {
  const { readOffline } = await import("./offline.ts");
  const chains = new Map<unknown, List["data"]>();
  await readOffline(options, { after, limit: limit + 1 }, (row) => {
    const rows = chains.get(row.workspace_id);
    if (rows) rows.push(row);
    else chains.set(row.workspace_id, [row]);
  });
  const hasMore = (rows: List["data"]): boolean => rows.length > limit;
  const data = [...chains.values()].toSorted((a, b) => Number(hasMore(a)) - Number(hasMore(b)));
  return { object: "list", data: data.flatMap((rows) => rows.slice(0, limit)), has_more: data.some(hasMore) };
}

async function checkpoint(options: TargetOptions & OutputOptions & { vkey?: true }): Promise<void> {
  const { note, vkey } = await fetchCheckpoint(requireBearer(resolveTarget(options)));
  if (options.json) return print(JSON.stringify({ object: "audit_checkpoint", note, vkey }));
  process.stdout.write(options.vkey ? `${vkey}\n` : note);
}
