// `keyrack self`: for the holder of an API key. The key comes from KEYRACK_API_KEY or standard input, never from an
// argument, which process lists show.
import type { Command } from "commander";
import { ApiError, fetchJson, type Target } from "../../api/request.ts";
import { DEFAULT_URL } from "../../api/target.ts";
import { recordTable } from "../../ui/format.ts";
import { ExitError, examples, outputFlags, printResult, type OutputOptions } from "../../ui/output.ts";
import { readSecret } from "../../ui/secret.ts";

type SelfOptions = OutputOptions & {
  url?: string;
  reason?: string;
  wait?: true;
  overlapHours?: string;
  idempotencyKey?: string;
};

const WAIT_MS = 45_000;

async function targetOf({ url }: SelfOptions): Promise<Target> {
  const bearer = process.env.KEYRACK_API_KEY || (await readSecret("API key")).trim();
  if (!bearer) throw new ExitError("No API key. Set KEYRACK_API_KEY, or pass the key on standard input.", 2);
  return { url: url ?? process.env.KEYRACK_URL ?? DEFAULT_URL, bearer };
}

function addVerb(self: Command, verb: string, description: string, quiet: string): Command {
  return outputFlags(self.command(verb).description(description), quiet).option(
    "--url <url>",
    "server URL (KEYRACK_URL)",
  );
}

async function show(options: SelfOptions): Promise<void> {
  const shown = await fetchJson(await targetOf(options), "GET /v1/self", {});
  printResult(options, { json: shown, quiet: shown.key_id, human: recordTable(shown) });
}

async function revoke(options: SelfOptions): Promise<void> {
  const query = options.wait ? { wait: "true" as const } : {};
  const body = options.reason === undefined ? {} : { reason: options.reason };
  const input = { query, body, timeoutMs: WAIT_MS };
  const revoked = await fetchJson(await targetOf(options), "POST /v1/self/revoke", input);
  printResult(options, { json: revoked, quiet: revoked.key_id, human: `Revoked key ${revoked.key_id}.` });
  if (revoked.propagation?.complete === false)
    throw new ExitError("The key is revoked, but not every server that verifies it has confirmed yet.", 1);
}

async function rotate(options: SelfOptions): Promise<void> {
  const hours = Number(options.overlapHours ?? "24");
  if (!Number.isFinite(hours)) throw new ExitError("--overlap-hours must be a number.", 2);
  const body = { overlap_hours: hours };
  const idempotencyKey = options.idempotencyKey ?? crypto.randomUUID();
  const sent = fetchJson(await targetOf(options), "POST /v1/self/rotate", { body, idempotencyKey });
  const rotated = await sent.catch((error: unknown) => {
    throw withRepetition(error, idempotencyKey);
  });
  const { key } = rotated;
  const human = `Rotated. Save the new key now; it will not be shown again:\n  ${key}\nThe old key works for ${hours} more hours.`;
  printResult(options, { json: rotated, quiet: key, human });
}

/** If the response is lost, only a retry with the same Idempotency-Key returns the new key. */
function withRepetition(error: unknown, idempotencyKey: string): unknown {
  const isLost =
    error instanceof ExitError && (error.exitCode === 3 || (error instanceof ApiError && error.status >= 500));
  if (!isLost) return error;
  const advice = `If the key was rotated, the same command with --idempotency-key ${idempotencyKey} prints the new one.`;
  return new ExitError(`${error.message} ${advice}`, error.exitCode);
}

export function addTo(program: Command): void {
  const self = program.command("self");
  addVerb(self, "show", "Show the API key in KEYRACK_API_KEY or on standard input.", "print only the id")
    .addHelpText("after", examples(["keyrack self show < key.txt", "KEYRACK_API_KEY=$KEY keyrack self show --json"]))
    .action(show);
  addVerb(self, "revoke", "Revoke the API key in KEYRACK_API_KEY or on standard input.", "print only the id")
    .option("--reason <text>", "reason, stored with the key")
    .option("--wait", "wait until every server that verifies the key has stopped accepting it")
    .addHelpText(
      "after",
      examples(["keyrack self revoke --wait < key.txt", 'keyrack self revoke --reason "leaked" < key.txt']),
    )
    .action(revoke);
  addVerb(self, "rotate", "Rotate the API key in KEYRACK_API_KEY or on standard input.", "print only the new key")
    .option("--overlap-hours <hours>", "how long the old key keeps working; 24 by default")
    .option("--idempotency-key <key>", "makes retries safe: the same key returns the same response")
    .addHelpText(
      "after",
      examples(["keyrack self rotate --quiet < key.txt > new.txt", "keyrack self rotate --overlap-hours 1 < key.txt"]),
    )
    .action(rotate);
}
