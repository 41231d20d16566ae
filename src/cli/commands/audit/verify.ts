// `keyrack audit verify`: on the server, over HTTP against a checkpoint, on the database, or on an export.
import { setTimeout as sleep } from "node:timers/promises";
import type { RouteOutput } from "../../../client.ts";
import { isFailure, request, toExitError, type ApiResponse, type Target } from "../../api/request.ts";
import { requireBearer, resolveTarget, type TargetOptions } from "../../api/target.ts";
import { escapeControls, ExitError, plural, print, readTextFile } from "../../ui/output.ts";
import { withProgress } from "../../ui/progress.ts";
import { fetchCheckpoint, readLog } from "./log.ts";
import type { OfflineOptions } from "./offline.ts";
import type { ChainVerdict } from "./verify-rows.ts";
import { MINUTE_MS } from "../../../kernel/durations.ts";

export type VerifyOptions = OfflineOptions &
  TargetOptions & { offline?: true; file?: string; checkpoint?: string; vkey?: string };

const CHAIN = { method: "GET", path: "/v1/audit_logs/chain", query: { full: "true" }, timeoutMs: 10 * MINUTE_MS };
/** The server admits six verifications a minute. */
const POLL_MS = 11_000;
/** The first verification of a long chain is not finished yet, or the server has too much to do. */
const BUSY = new Set([429, 503]);
const REFUSED_MAX = 30;

export async function verify(options: VerifyOptions): Promise<void> {
  const { NotVerifiable } = await import("./verify-rows.ts");
  try {
    await verifyLog(options);
  } catch (error) {
    if (options.json && error instanceof NotVerifiable)
      print(JSON.stringify({ object: "audit_verification", verified: false, chains: [], reason: error.reason }));
    throw error;
  }
}

async function verifyLog(options: VerifyOptions): Promise<void> {
  const { file, offline, deployment } = options;
  if (file && (offline || deployment))
    throw new ExitError(`--file and --${offline ? "offline" : "deployment"} cannot be used together.`, 2);
  if (options.vkey !== undefined && options.checkpoint === undefined)
    throw new ExitError("--vkey needs --checkpoint: it is the key that signed it.", 2);
  if (file || offline || deployment) return report(await verifyLocal(options), options);
  const target = requireBearer(resolveTarget(options));
  if (options.checkpoint) return report(await verifyByCheckpoint(target, options), options);
  const response = await verifyOnServer(target);
  const chain = JSON.parse(response.text) as Chain;
  if (options.json) print(response.text.trimEnd());
  else if (!options.quiet && chain.verified) print(`Audit log verified: ${verifiedText(chain)}.`);
  if (!chain.verified) throw brokenError(chain);
}

type Chain = RouteOutput<"GET /v1/audit_logs/chain">;

/** A long chain is verified in the background: waits for that to end. */
async function verifyOnServer(target: Target): Promise<ApiResponse> {
  return withProgress(async (onProgress) => {
    for (let refused = 0; ; ) {
      const response = await request(target, CHAIN);
      const { full, head_seq } = isFailure(response) ? ({} as Chain) : (JSON.parse(response.text) as Chain);
      refused = isFailure(response) ? refused + 1 : 0;
      if (isFailure(response) && (!BUSY.has(response.status) || refused > REFUSED_MAX)) throw toExitError(response);
      if (!isFailure(response) && !full?.running) return response;
      if (full) onProgress({ step: "audit rows", done: full.checked, total: head_seq });
      await sleep(POLL_MS);
    }
  });
}

/** Verifies the database, or an export. */
async function verifyLocal(options: VerifyOptions): Promise<ChainVerdict[]> {
  const { openCheckpoints } = await import("./verify-rows.ts");
  const notes = options.checkpoint === undefined ? undefined : readTextFile(options.checkpoint);
  if (options.file) {
    if (notes !== undefined && !options.vkey)
      throw new ExitError("With --file, --checkpoint requires --vkey: nothing else authenticates the note.", 2);
    const { verifyFile } = await import("./verify-file.ts");
    return verifyFile(options.file, notes === undefined ? undefined : openCheckpoints(notes, options.vkey ?? ""));
  }
  const { storedVkey, verifyOffline } = await import("./offline.ts");
  return verifyOffline(options, async (source) => {
    if (notes === undefined) return undefined;
    const workspace_id = /\/audit\/([0-9a-f-]{36})\n/.exec(notes)?.[1] ?? "";
    return openCheckpoints(notes, options.vkey ?? (await storedVkey(source, workspace_id)) ?? "");
  });
}

async function verifyByCheckpoint(target: Target, options: VerifyOptions): Promise<ChainVerdict[]> {
  const { RowVerifier, openCheckpoints } = await import("./verify-rows.ts");
  const key = options.vkey ?? (await fetchCheckpoint(target)).vkey;
  const verifier = new RowVerifier(openCheckpoints(readTextFile(options.checkpoint ?? ""), key));
  await readLog(target, (row) => verifier.take(row as never));
  return verifier.verdicts();
}

function verifiedText({ checked, head_hash }: Chain | ChainVerdict): string {
  return `${plural(checked, "row")}, head ${head_hash}`;
}

function brokenText({ broken_seq, reason, checked }: Chain | ChainVerdict): string {
  return `broken at seq ${broken_seq}: ${reason}. ${plural(checked, "valid row")} before it`;
}

function brokenError(verdict: Chain | ChainVerdict): ExitError {
  return new ExitError(`The audit log is ${brokenText(verdict)}.`, 4);
}

function report(verdicts: ChainVerdict[], options: VerifyOptions): void {
  const broken = verdicts.find(({ verified }) => !verified);
  if (options.json)
    print(JSON.stringify({ object: "audit_verification", verified: broken === undefined, chains: verdicts }));
  else if (!options.quiet) printVerdicts(verdicts, options);
  if (broken) throw brokenError(broken);
}

function printVerdicts(verdicts: ChainVerdict[], options: VerifyOptions): void {
  for (const verdict of verdicts) print(verdictText(verdict));
  if (verdicts.length === 0) print("The audit log is empty.");
  if (options.file && !options.checkpoint)
    print("Note: without --checkpoint, rows missing at the end are not detected.");
}

function verdictText(verdict: ChainVerdict): string {
  const { verified, checkpoint_size } = verdict;
  const workspace_id = escapeControls(verdict.workspace_id); // of a file, any text
  if (!verified) return `${workspace_id}: ${brokenText(verdict)}.`;
  const extended = checkpoint_size === null ? "" : `; extends the checkpoint at ${plural(checkpoint_size, "row")}`;
  return `${workspace_id}: verified, ${verifiedText(verdict)}${extended}.`;
}
