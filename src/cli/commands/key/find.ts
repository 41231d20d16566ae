// `keyrack key find WORD…`: `key list --q` by another name.
import type { Command } from "commander";
import { addFlags, commandSpec } from "../../api/generated.ts";
import { runApiCommand, type ApiOptions } from "../../api/send.ts";
import { targetFlags } from "../../api/target.ts";
import { examples, outputFlags } from "../../ui/output.ts";

export function addFindCommand(key: Command): void {
  const list = commandSpec("key", "list");
  const filters = { ...list, flags: list.flags.filter(({ name }) => name !== "q") };
  const command = key
    .command("find")
    .description("Find keys by words of their name or tenant, by display prefix or by id.")
    .argument(
      "<words...>",
      "beginnings of words; a display prefix with both underscores, such as kr_live_ or kr_live_ab; or the id of a key or tenant",
    );
  addFlags(command, filters);
  targetFlags(outputFlags(command))
    .addHelpText("after", examples(["keyrack key find acme prod", "keyrack key find kr_live_ab --include-revoked"]))
    .action((words: string[], options: ApiOptions) => runApiCommand(list, [], { ...options, q: words.join(" ") }));
}
