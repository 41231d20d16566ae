// `keyrack signing-key list/rotate`: the keys that sign embed tokens.
import type { Command } from "commander";
import type { SigningKeyView } from "../../domain/embed/signing-keys.ts";
import { operate, operatorFlags, show, type OperatorOptions } from "../operator.ts";
import { table } from "../ui/output.ts";

export function addSigningKeyCommands(program: Command): void {
  const noun = program.command("signing-key").description("The keys that sign embed tokens.");
  operatorFlags(noun.command("list"), ["keyrack signing-key list", "keyrack signing-key list --json"])
    .description("Every signing key with its state: signing, next, standby, retired, removed.")
    .action((options: OperatorOptions) => list(options));
  operatorFlags(noun.command("rotate"), ["keyrack signing-key rotate", "keyrack signing-key rotate --compromised"])
    .description("Hand signing over to the standby and publish a new one.")
    .option("--compromised", "the present key ends at once, and every outstanding embed token with it")
    .action((options: OperatorOptions & { compromised?: true }) => rotate(options));
}

async function list(options: OperatorOptions): Promise<void> {
  print(await operate(options, "signing-key.list"), options);
}

async function rotate(options: OperatorOptions & { compromised?: true }): Promise<void> {
  const keys = await operate(options, "signing-key.rotate", { compromised: options.compromised === true });
  print(keys, options);
}

function print(data: SigningKeyView[], options: OperatorOptions): void {
  const rows = data.map(({ kid, state, published_at, active_from, retired_at, removed_at }) => [
    kid,
    state,
    ...[published_at, active_from, retired_at, removed_at].map((time) => time?.slice(0, 16).concat("Z") ?? "-"),
  ]);
  show(options, {
    json: { object: "list", data },
    quiet: data.find(({ state }) => state === "signing")?.kid ?? "",
    human: table([["KID", "STATE", "PUBLISHED", "SIGNS FROM", "UNTIL", "REMOVED"], ...rows]),
  });
}
