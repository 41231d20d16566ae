// `keyrack member`: the generated commands; `delete` first lists what the person leaves behind, and asks on a terminal.
import type { Command } from "commander";
import type { RouteOutput } from "../../client.ts";
import { addApiCommands, commandSpec } from "../api/generated.ts";
import { buildRequest, runApiCommand, sendRequest, type ApiOptions } from "../api/send.ts";
import { listTable } from "../ui/format.ts";
import { ExitError, isTerminal, print } from "../ui/output.ts";

type LeftBehind = RouteOutput<"GET /v1/members/{userId}/left_behind">;

export function addTo(program: Command): void {
  addApiCommands(program, "member", {
    delete: {
      flags: (command) => command.alias("remove"),
      run: async (spec, args, options) => {
        const revoke = isTerminal() && !options.json && !options.quiet ? await confirm(args, options) : options.revoke;
        await runApiCommand(spec, args, { ...options, revoke });
      },
    },
  });
}

/** The value of `--revoke`, once the person at the terminal has seen what it is about. */
async function confirm(args: string[], options: ApiOptions): Promise<string | undefined> {
  const revoke = options.revoke as string | undefined;
  const spec = commandSpec("member", "left-behind");
  const left = JSON.parse((await sendRequest(buildRequest(spec, args, options), options)).text) as LeftBehind;
  if (left.secret_keys.length + left.invites.length === 0) return revoke;
  printLeftBehind(left);
  const { askChoice, askYesNo } = await import("../ui/prompts.ts");
  if (revoke === undefined)
    return askChoice("This person leaves the above behind. What should end with their membership?", [
      { value: "none", label: "Nothing" },
      { value: "invites", label: "Their invitations" },
      { value: "all", label: "Their invitations and secret keys", hint: "software that uses these keys stops working" },
    ]);
  if (!(await askYesNo(`Remove the member with --revoke ${revoke}?`)))
    throw new ExitError("Cancelled. Nothing was changed.", 2);
  return revoke;
}

function printLeftBehind({ secret_keys, invites, more }: LeftBehind): void {
  if (secret_keys.length > 0)
    print(listTable(secret_keys, ["id", "display_prefix", "env", "owner_scope", "last_used_at"]));
  if (invites.length > 0) print(listTable(invites, ["id", "email", "role", "expires_at"]));
  if (more) print("There are more.");
}
