// `keyrack status`: how the server is, from its probes.
import type { Command } from "commander";
import { cell } from "./present.ts";
import { request } from "./request.ts";
import { ExitError, out, table } from "./shell.ts";
import { outputFlags, resolveTarget, type OutputOptions } from "./target.ts";

type Readiness = { status: string; region: string; database: string; redis: { configured: boolean; ready: boolean } };

export function addStatusCommand(program: Command): void {
  outputFlags(program.command("status"), "print only the word")
    .description("Whether the server is up and can reach its database. Exit 1 when it is not well, 3 when not there.")
    .option("--url <url>", "address of the server (KEYRACK_URL)")
    .option("--profile <name>", "profile to use (KEYRACK_PROFILE)")
    .addHelpText("after", "\nExamples:\n  keyrack status\n  keyrack status --url https://keys.example.com --json")
    .action((options: OutputOptions & { url?: string; profile?: string }) => status(options));
}

async function status(options: OutputOptions & { url?: string; profile?: string }): Promise<void> {
  const { url } = resolveTarget(options);
  const answer = await request({ url, bearer: null }, { method: "GET", path: "/readyz", timeoutMs: 10_000 });
  let body: Readiness;
  try {
    body = JSON.parse(answer.text) as Readiness;
  } catch {
    throw new ExitError(`${url} answers, but not as Keyrack does.`, 1);
  }
  if (options.json) out(answer.text);
  else if (options.quiet) out(body.status);
  else {
    const redis = body.redis?.configured ? (body.redis.ready ? "ok" : "not ready") : "not configured";
    out(
      table([
        ["server", url],
        ["status", cell(body.status)],
        ["region", cell(body.region)],
        ["database", cell(body.database)],
        ["redis", redis],
      ]),
    );
  }
  if (body.status !== "ok") throw new ExitError(`The server is ${body.status}.`, 1);
}
