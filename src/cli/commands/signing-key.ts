// `keyrack signing-key list/rotate`: the keys that sign embed tokens.
import type { Command } from "commander";
import type { SigningKeyView } from "../../domain/embed/signing-keys.ts";
import { operate, operatorFlags, type OperatorOptions } from "../operator.ts";
import { minute, printResult, table } from "../ui/output.ts";

const QUIET = "print only the id of the key that signs";

export function addTo(program: Command): void {
  const noun = program.command("signing-key");
  operatorFlags(noun.command("list"), ["keyrack signing-key list", "keyrack signing-key list --json"], QUIET)
    .description("List signing keys with their state: signing, next, standby, retired or removed.")
    .action((options: OperatorOptions) => list(options));
  operatorFlags(
    noun.command("rotate"),
    ["keyrack signing-key rotate", "keyrack signing-key rotate --compromised"],
    QUIET,
  )
    .description("Promote the standby key to signing and publish a new standby.")
    .option("--compromised", "remove the current key at once and invalidate every embed token it signed")
    .action((options: OperatorOptions & { compromised?: true }) => rotate(options));
}

async function list(options: OperatorOptions): Promise<void> {
  printKeys(await operate(options, "signing-key.list"), options);
}

async function rotate(options: OperatorOptions & { compromised?: true }): Promise<void> {
  const keys = await operate(options, "signing-key.rotate", { compromised: options.compromised === true });
  printKeys(keys, options);
}

function printKeys(data: SigningKeyView[], options: OperatorOptions): void {
  const rows = data.map(({ kid, state, published_at, active_from, retired_at, removed_at }) => [
    kid,
    state,
    ...[published_at, active_from, retired_at, removed_at].map(minute),
  ]);
  printResult(options, {
    json: { object: "list", data },
    quiet: data.find(({ state }) => state === "signing")?.kid ?? "",
    human: table([["KID", "STATE", "PUBLISHED", "SIGNS FROM", "UNTIL", "REMOVED"], ...rows]),
  });
}
