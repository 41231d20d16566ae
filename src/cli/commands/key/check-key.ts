// `keyrack check-key`: reads a credential's kind, environment and checksum from its text, offline. Never prints the
// text itself.
import { createHash } from "node:crypto";
import type { Command } from "commander";
import { guessCredentialKind, parseCredential, parseInviteToken } from "../../../kernel/credentials.ts";
import { ExitError, examples, outputFlags, print, readStdin, table, type OutputOptions } from "../../ui/output.ts";

export function addTo(program: Command): void {
  outputFlags(program.command("check-key"), "print only the display prefix")
    .description("Check a key's format and checksum, offline. Exit 4 if it is not a Keyrack key.")
    .argument("<key>", "the key, or - to read it from stdin and keep it out of the shell history")
    .addHelpText("after", examples(["keyrack check-key - < key.txt", "pbpaste | keyrack check-key - --json"]))
    .action((key: string, options: OutputOptions) => checkKey(key, options));
}

async function checkKey(given: string, options: OutputOptions): Promise<void> {
  const text = (given === "-" ? await readStdin() : given).trim();
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
  if (options.json) print(JSON.stringify(body));
  else if (options.quiet) {
    if (body.display_prefix) print(body.display_prefix);
  } else if (valid) {
    print(
      table([
        ["kind", String(kind)],
        ["environment", body.env ?? "-"],
        ["checksum", "valid"],
        ["display prefix", body.display_prefix ?? "-"],
        ["lookup hash", String(body.lookup_hash)],
      ]),
    );
  }
  if (!valid)
    throw new ExitError(kind ? "Wrong checksum or length: the key is mistyped or cut off." : "Not a Keyrack key.", 4);
}
