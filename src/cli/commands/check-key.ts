// `keyrack check-key`: what a credential's text says about it, offline. The text itself is never printed.
import { createHash } from "node:crypto";
import type { Command } from "commander";
import { guessCredentialKind, parseCredential, parseInviteToken } from "../../kernel/credentials.ts";
import { ExitError, out, readStdin, table } from "../ui/output.ts";
import { outputFlags, type OutputOptions } from "../api/target.ts";

export function addCheckKeyCommand(program: Command): void {
  outputFlags(program.command("check-key"), "print only the display prefix")
    .description("Check a key's form and checksum, offline. Exit 4 when it is not one of ours.")
    .argument("<key>", "the key; - reads it from stdin, so that it stays out of the shell's history")
    .addHelpText("after", "\nExamples:\n  keyrack check-key - < key.txt\n  pbpaste | keyrack check-key - --json")
    .action((key: string, options: OutputOptions) => checkKey(key, options));
}

async function checkKey(given: string, options: OutputOptions): Promise<void> {
  const text = given === "-" ? await readStdin() : given;
  const parsed = parseCredential(text);
  const invite = parsed ? null : parseInviteToken(text);
  const kind = parsed?.kind ?? (invite ? "invite" : guessCredentialKind(text));
  const valid = parsed !== null || invite !== null;
  const body = {
    object: "key_check",
    valid,
    kind,
    env: parsed?.env ?? null,
    display_prefix: parsed?.displayPrefix ?? null,
    lookup_hash: valid ? createHash("sha256").update(text).digest("hex") : null,
  };
  if (options.json) out(JSON.stringify(body));
  else if (options.quiet) {
    if (body.display_prefix) out(body.display_prefix);
  } else if (valid) {
    out(
      table([
        ["kind", String(kind)],
        ["environment", body.env ?? "-"],
        ["checksum", "good"],
        ["display prefix", body.display_prefix ?? "-"],
        ["lookup hash", String(body.lookup_hash)],
      ]),
    );
  }
  if (!valid)
    throw new ExitError(
      kind ? "The checksum or the form is wrong: mistyped or cut off." : "This is not a Keyrack key.",
      4,
    );
}
