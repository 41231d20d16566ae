// `keyrack status`: how the server and its parts are.
import type { Command } from "commander";
import { cell } from "../ui/format.ts";
import { request } from "../api/request.ts";
import { ExitError, out, table } from "../ui/output.ts";
import { outputFlags, resolveTarget, type OutputOptions } from "../api/target.ts";

type Status = {
  status: string;
  components: Record<string, string>;
  restoreTest: { lastRunAt: string | null; pass: boolean | null; backupId: string | null };
};

export function addStatusCommand(program: Command): void {
  outputFlags(program.command("status"), "print only the word")
    .description("How the server and its parts are. Exit 1 when it is not well, 3 when not there.")
    .option("--url <url>", "address of the server (KEYRACK_URL)")
    .option("--profile <name>", "profile to use (KEYRACK_PROFILE)")
    .addHelpText("after", "\nExamples:\n  keyrack status\n  keyrack status --url https://keys.example.com --json")
    .action((options: OutputOptions & { url?: string; profile?: string }) => status(options));
}

async function status(options: OutputOptions & { url?: string; profile?: string }): Promise<void> {
  const { url } = resolveTarget(options);
  const answer = await request({ url, bearer: null }, { method: "GET", path: "/status", timeoutMs: 10_000 });
  const body = parse(answer.text);
  if (!body) throw new ExitError(`${url} answers, but not as Keyrack does.`, 1);
  if (options.json) out(answer.text);
  else if (options.quiet) out(body.status);
  else {
    const parts = Object.entries(body.components).map(([name, health]) => [name, cell(health)]);
    out(
      table([["server", url], ["status", cell(body.status)], ...parts, ["restore test", restored(body.restoreTest)]]),
    );
  }
  if (body.status !== "ok") throw new ExitError(`The server is ${body.status}.`, 1);
}

function parse(text: string): Status | undefined {
  try {
    const body = JSON.parse(text) as Partial<Status> | null;
    return body?.status && body.components && body.restoreTest ? (body as Status) : undefined;
  } catch {
    return undefined;
  }
}

function restored({ lastRunAt, pass, backupId }: Status["restoreTest"]): string {
  if (lastRunAt === null) return "never";
  return `${pass ? "passed" : "failed"} ${cell(lastRunAt)} (${cell(backupId)})`;
}
