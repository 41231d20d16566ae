// `keyrack plan`: the generated commands; `update --wait` waits for all nodes.
import type { Command } from "commander";
import { addApiCommands } from "../api/generated.ts";
import { waitable } from "../api/waitable.ts";

export function addTo(program: Command): void {
  addApiCommands(program, "plan", {
    update: waitable("update", ["keyrack plan update ID --max-keys 50", "keyrack plan update ID --scopes read --wait"]),
  });
}
