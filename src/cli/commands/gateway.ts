// `keyrack gateway`: the verifier for APIs that are not written for Node, behind the proxy that stands before them.
import { setTimeout } from "node:timers/promises";
import type { Command } from "commander";
import type { GatewayMode } from "../../gateway.ts";
import type { Level } from "../../platform/log.ts";
import type { LimitsMode } from "../../sdk/guard.ts";
import type { KeyrackOptions } from "../../sdk/options.ts";
import { ExitError, out } from "../ui/output.ts";
import { requireBearer, resolveTarget } from "../api/target.ts";

type Options = {
  json?: true;
  quiet?: true;
  url?: string;
  secretKey?: string;
  profile?: string;
  projectId?: string;
  mode: string;
  host: string;
  port: string;
  env?: string;
  limits: string;
  failMode: string;
  cacheFile?: string;
  staleMs?: string;
  maxStaleMs?: string;
  sampleRate?: string;
};

const PORT = 4748;
/** How long to wait for the first policy before saying that we listen. Requests are answered meanwhile. */
const FIRST_POLICY_MS = 2_000;

export function addGatewayCommand(program: Command): void {
  program
    .command("gateway")
    .description("Verify keys for nginx (auth_request), Caddy, Traefik (forward-auth) and Envoy (ext_authz over HTTP).")
    .option("--project-id <id>", "project whose keys are verified (KEYRACK_PROJECT_ID)")
    .option("--url <url>", "address of the server (KEYRACK_URL)")
    .option("--secret-key <key>", "secret key to use (KEYRACK_SECRET_KEY)")
    .option("--profile <name>", "profile to use (KEYRACK_PROFILE)")
    .option("--mode <mode>", "forward, or nginx: 429 and 503 go out as 403 with x-keyrack-status", "forward")
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option("--port <number>", "port to listen on; 0 takes any free one", String(PORT))
    .option("--env <env>", "admit only keys of this environment: live or test")
    .option("--limits <how>", "rate limits: check, lease or off", "check")
    .option("--fail-mode <mode>", "while there is no policy: closed (503) or open (admitted unverified)", "closed")
    .option("--cache-file <file>", "keep the last good policy here, to start while the server is down")
    .option("--stale-ms <ms>", "a policy older than this is degraded")
    .option("--max-stale-ms <ms>", "a policy older than this counts as none")
    .option("--sample-rate <share>", "share of requests reported, 0.0001 to 1")
    .option("--json", "print one JSON line when ready")
    .option("--quiet", "print only the address when ready")
    .addHelpText(
      "after",
      "\nExamples:\n  keyrack gateway --mode nginx --project-id $KEYRACK_PROJECT_ID\n  keyrack gateway --port 9000 --cache-file /var/lib/keyrack-gateway/policy.json",
    )
    .action((options: Options) => gateway(options));
}

async function gateway(options: Options): Promise<void> {
  const [{ startGateway, GATEWAY_MODES }, { createKeyrack }, { createLog }] = await Promise.all([
    import("../../gateway.ts"),
    import("../../sdk/index.ts"),
    import("../../platform/log.ts"),
  ]);
  const mode = oneOf<GatewayMode>("--mode", options.mode, GATEWAY_MODES);
  const limits = oneOf<LimitsMode>("--limits", options.limits, ["check", "lease", "off"]);
  const port = wholeNumber("--port", options.port);
  if (port > 65_535) throw new ExitError("--port must be a whole number from 0 to 65535.", 2);
  const log = createLog({ level: levelOf(process.env.KEYRACK_LOG_LEVEL), pretty: process.stderr.isTTY });
  const keyrack = asUsage(() =>
    createKeyrack({
      ...verifierOptions(options),
      log: (level, message, fields) => log[level](message, fields as Parameters<typeof log.info>[1]),
    }),
  );
  const stopped = ended();
  const running = await startGateway({ keyrack, mode, limits, host: options.host, port }).catch(
    async (error: NodeJS.ErrnoException) => {
      await keyrack.close();
      throw new ExitError(`Cannot listen on ${options.host}:${port} (${error.code ?? error.message}).`, 2);
    },
  );
  // A refusal will not mend by waiting, whenever it comes. A server that is not there yet will.
  const ready = keyrack.ready();
  try {
    await Promise.race([ready, stopped, setTimeout(FIRST_POLICY_MS, undefined, { ref: false })]);
    if (keyrack.status().version === null)
      log.warn("no policy yet: requests are refused until the server can be reached");
    sayReady(options, running.url, mode);
    await Promise.race([stopped, ready.then(() => stopped)]);
  } catch (error) {
    throw new ExitError((error as Error).message, 1);
  } finally {
    await running.stop();
  }
}

function sayReady(options: Options, url: string, mode: GatewayMode): void {
  if (options.json) out(JSON.stringify({ event: "listening", url, mode, pid: process.pid }));
  else out(options.quiet ? url : `keyrack gateway listening on ${url}`);
}

function verifierOptions(options: Options): KeyrackOptions<undefined> {
  const { url, bearer } = requireBearer(resolveTarget(options));
  const projectId = options.projectId ?? process.env.KEYRACK_PROJECT_ID;
  if (!projectId) throw new ExitError("Which project's keys? Set --project-id or KEYRACK_PROJECT_ID.", 2);
  const { env, failMode, cacheFile, staleMs, maxStaleMs, sampleRate } = options;
  return {
    url,
    secretKey: bearer ?? "",
    projectId,
    failMode: oneOf("--fail-mode", failMode, ["closed", "open"]),
    ...(env !== undefined && { env: oneOf("--env", env, ["live", "test"]) }),
    ...(cacheFile !== undefined && { cacheFile }),
    ...(staleMs !== undefined && { staleMs: wholeNumber("--stale-ms", staleMs) }),
    ...(maxStaleMs !== undefined && { maxStaleMs: wholeNumber("--max-stale-ms", maxStaleMs) }),
    ...(sampleRate !== undefined && { sampleRate: Number(sampleRate) }),
  };
}

/** The library's own checks speak of options; a wrong one is wrong usage here. */
function asUsage<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof TypeError) throw new ExitError(error.message.replace(/^keyrack: /, ""), 2);
    throw error;
  }
}

function oneOf<T extends string>(flag: string, value: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === value);
  if (!found) throw new ExitError(`${flag} is ${choices.join(" or ")}.`, 2);
  return found;
}

function wholeNumber(flag: string, text: string): number {
  if (!/^\d{1,12}$/.test(text)) throw new ExitError(`${flag} must be a whole number.`, 2);
  return Number(text);
}

function levelOf(text: string | undefined): Level {
  return (["debug", "info", "warn", "error"] as const).find((level) => level === text) ?? "info";
}

/** Resolves at the first signal to end. A second one ends the process at once. */
function ended(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => resolve());
  });
}
