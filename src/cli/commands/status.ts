// `keyrack status`: the health of the server and its components.
import type { Command } from "commander";
import type { RouteOutput } from "../../client.ts";
import { request } from "../api/request.ts";
import { resolveTarget } from "../api/target.ts";
import { cell } from "../ui/format.ts";
import { ExitError, examples, outputFlags, print, table, type OutputOptions } from "../ui/output.ts";

type Current = RouteOutput<"GET /status">;
/** Without `versions` in the response of an older server. */
type Status = Omit<Current, "versions"> & Partial<Current>;

type StatusOptions = OutputOptions & { url?: string; profile?: string; ready?: true };

const TIMEOUT_MS = 10_000;

export function addTo(program: Command): void {
  outputFlags(program.command("status"), "print only the overall status")
    .description(
      "Show the health of the server and its components. Exit 1 unless the overall status is ok, 3 if unreachable.",
    )
    .option("--ready", "print nothing: exit 0 if the server is ready, 3 if it is not")
    .option("--url <url>", "server URL (KEYRACK_URL)")
    .option("--profile <name>", "profile to use (KEYRACK_PROFILE)")
    .addHelpText("after", examples(["keyrack status --ready", "keyrack status --url https://keys.example.com --json"]))
    .action((options: StatusOptions) => (options.ready ? probe(options) : status(options)));
}

/** A health check for containers, which have no curl. */
async function probe(options: StatusOptions): Promise<void> {
  const { url } = resolveTarget(options);
  try {
    const { status } = await request({ url, bearer: null }, { method: "GET", path: "/readyz", timeoutMs: TIMEOUT_MS });
    if (status !== 200) process.exitCode = 3;
  } catch (error) {
    if ((error as ExitError).exitCode !== 3) throw error; // a URL that cannot be used
    process.exitCode = 3;
  }
}

async function status(options: StatusOptions): Promise<void> {
  const { url } = resolveTarget(options);
  const { text } = await request({ url, bearer: null }, { method: "GET", path: "/status", timeoutMs: TIMEOUT_MS });
  const body = parseStatus(text);
  if (!body) throw new ExitError(`The server at ${url} is not a Keyrack server. Check --url.`, 1);
  if (options.json) print(text);
  else if (options.quiet) print(body.status);
  else {
    const components = Object.entries(body.components).map(([name, health]) => [name, cell(health)]);
    const restoreTest = ["restore test", formatRestoreTest(body.restoreTest)];
    const versions = body.versions ? [["versions", body.versions.map((version) => cell(version)).join(", ")]] : [];
    print(table([["server", url], ["status", cell(body.status)], ...components, restoreTest, ...versions]));
  }
  if (body.status !== "ok") throw new ExitError(`The server's status is ${body.status}.`, 1);
}

function parseStatus(text: string): Status | undefined {
  try {
    const body = JSON.parse(text) as Partial<Status> | null;
    return body?.status && body.components && body.restoreTest ? (body as Status) : undefined;
  } catch {
    return undefined;
  }
}

function formatRestoreTest({ lastRunAt, pass, backupId }: Status["restoreTest"]): string {
  if (lastRunAt === null) return "never run";
  return `${pass ? "passed" : "failed"} ${cell(lastRunAt)} (${cell(backupId)})`;
}
