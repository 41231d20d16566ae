// `keyrack gateway`: a node that a reverse proxy asks, for APIs that are not written for Node.
import { setTimeout } from "node:timers/promises";
import { Option, type Command } from "commander";
import { HOUR_MS } from "../../kernel/durations.ts";
import type { GatewayMode } from "../../gateway.ts";
import { tuneHeap } from "../../platform/heap.ts";
import { listenProblem } from "../../platform/listen.ts";
import { createLog, type Level } from "../../platform/log.ts";
import { atMostEvery } from "../../platform/timing.ts";
import type { LimitsMode } from "../../sdk/protect-options.ts";
import type { KeyrackOptions } from "../../sdk/options.ts";
import { requireBearer, resolveTarget, type TargetOptions } from "../api/target.ts";
import { keepRunningOnOutputError } from "../output-errors.ts";
import { ENDING_SIGNALS } from "../signals.ts";
import { ExitError, examples, print, toFlag, type OutputOptions } from "../ui/output.ts";

/** Flags with the names of the library's options are passed to it. */
type Options = OutputOptions &
  Pick<TargetOptions, "url" | "secretKey" | "profile"> &
  Omit<KeyrackOptions<undefined>, "url" | "secretKey" | "projectId"> & {
    projectId?: string;
    mode: GatewayMode;
    host: string;
    port: number;
    limits: LimitsMode;
  };

const PORT = 4748;
/** How long to wait for the first policy before reporting ready. Requests are answered during the wait. */
const FIRST_POLICY_MS = 2_000;

export function addTo(program: Command): void {
  program
    .command("gateway")
    .description("Verify keys for nginx (auth_request), Caddy, Traefik (forward-auth) and Envoy (ext_authz over HTTP).")
    .option("--project-id <id>", "project whose keys are verified (KEYRACK_PROJECT_ID)")
    .option("--url <url>", "server URL (KEYRACK_URL)")
    .option("--secret-key <key>", "secret key to use; KEYRACK_SECRET_KEY keeps it out of process lists")
    .option("--profile <name>", "profile to use (KEYRACK_PROFILE)")
    .addOption(
      choice("--mode <mode>", "nginx sends 400, 429 and 503 as 403 with x-keyrack-status", ["forward", "nginx"]),
    )
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option("--port <number>", "port to listen on; 0 for any free port", wholeNumber("--port"), PORT)
    .addOption(new Option("--env <env>", "accept only keys of this environment").choices(["live", "test"]))
    .addOption(choice("--limits <how>", "rate limits and quotas; off charges neither", ["check", "lease", "off"]))
    .addOption(
      choice("--quota-fail-mode <mode>", "while quotas cannot be charged: open charges later, closed responds 503", [
        "open",
        "closed",
      ]),
    )
    .addOption(
      choice("--fail-mode <mode>", "without a policy: closed responds 503, open admits unverified", ["closed", "open"]),
    )
    .option("--cache-file <file>", "save the last policy here, to start while the server is down")
    .option("--stale-ms <ms>", "report a policy older than this as degraded", wholeNumber("--stale-ms"))
    .option("--max-stale-ms <ms>", "discard a policy older than this", wholeNumber("--max-stale-ms"))
    .option("--sample-rate <share>", "share of requests to report, 0.0001 to 1", Number)
    .option(
      "--key-prefixes <list>",
      "prefixes of your keys, for the time before the first policy (comma separated)",
      splitList,
    )
    .option(
      "--trusted-proxies <list>",
      "addresses or networks of your proxies, or unix, whose X-Forwarded-For names the client (comma separated)",
      splitList,
    )
    .option("--no-client-info", "report neither the network nor the user agent that a key is used from")
    .option("--json", "print one JSON line when ready")
    .option("--quiet", "print only the address when ready")
    .addHelpText(
      "after",
      examples([
        "keyrack gateway --mode nginx --project-id $KEYRACK_PROJECT_ID --trusted-proxies 127.0.0.1",
        "keyrack gateway --port 9000 --cache-file /var/lib/keyrack-gateway/policy.json",
      ]),
    )
    .action((options: Options) => gateway(options));
}

async function gateway(options: Options): Promise<void> {
  const [{ startGateway, GATEWAY_NAME }, { createKeyrackWith }] = await Promise.all([
    import("../../gateway.ts"),
    import("../../sdk/keyrack.ts"),
  ]);
  const { mode, limits, host, port } = options;
  if (port > 65_535) throw new ExitError("--port must be a whole number from 0 to 65535.", 2);
  const log = createLog({ level: parseLevel(process.env.KEYRACK_LOG_LEVEL), pretty: process.stderr.isTTY });
  const keyrack = asUsageError(() =>
    createKeyrackWith(
      {
        ...verifierOptions(options),
        log: (level, message, fields) => log[level](message, fields as Parameters<typeof log.info>[1]),
      },
      undefined,
      GATEWAY_NAME,
    ),
  );
  const stopped = firstSignal();
  // A client may be able to append an empty scope: it must neither fill the log nor hide a later mistake for ever.
  const onInvalidScopes = atMostEvery(HOUR_MS, (problem: string) =>
    log.error("requests have invalid scopes: check the proxy's configuration", { problem }),
  );
  const running = await startGateway({ keyrack, mode, limits, host, port, onInvalidScopes }).catch(
    async (error: unknown) => {
      await keyrack.close();
      throw new ExitError(...listenProblem(error, host, port, "--port"));
    },
  );
  // A refused credential ends the gateway whenever it is reported: waiting does not fix it. An unreachable server is
  // retried.
  const ready = keyrack.ready();
  try {
    await Promise.race([ready, stopped, setTimeout(FIRST_POLICY_MS, undefined, { ref: false })]);
    if (keyrack.status().version === null)
      log.warn(
        options.failMode === "open"
          ? "no policy yet: requests are admitted without verification until the server can be reached"
          : "no policy yet: requests are refused until the server can be reached",
      );
    tuneHeap();
    printReady(options, running.url, mode);
    await Promise.race([stopped, ready.then(() => stopped)]);
  } catch (error) {
    throw new ExitError((error as Error).message, 1);
  } finally {
    await running.stop();
  }
}

function printReady(options: Options, url: string, mode: GatewayMode): void {
  keepRunningOnOutputError();
  if (options.json) print(JSON.stringify({ event: "listening", url, mode, pid: process.pid }));
  else print(options.quiet ? url : `keyrack gateway listening on ${url}`);
}

function verifierOptions(options: Options): KeyrackOptions<undefined> {
  const { url, bearer } = requireBearer(resolveTarget(options));
  const projectId = options.projectId ?? process.env.KEYRACK_PROJECT_ID;
  if (!projectId) throw new ExitError("No project given. Set --project-id or KEYRACK_PROJECT_ID.", 2);
  const { env, failMode, quotaFailMode, staleMs, maxStaleMs, sampleRate, trustedProxies, keyPrefixes } = options;
  const given = { env, failMode, quotaFailMode, staleMs, maxStaleMs, sampleRate, trustedProxies, keyPrefixes };
  const { cacheFile, clientInfo } = options;
  return { ...given, url, secretKey: bearer ?? "", projectId, clientInfo, cacheFile: cacheFile || undefined };
}

/** A flag of which the first choice is the default. */
function choice(flags: string, description: string, choices: readonly string[]): Option {
  return new Option(flags, description).choices(choices).default(choices[0]);
}

function splitList(text: string): string[] {
  return text.split(",").map((entry) => entry.trim());
}

/** An option that the SDK rejects is wrong usage of the command. */
function asUsageError<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof TypeError)
      throw new ExitError(error.message.replace(/^keyrack: /, "").replaceAll(/\b[a-z]+[A-Z]\w*/g, toFlag), 2);
    throw error;
  }
}

/** A parser of a flag's value. */
const wholeNumber =
  (flag: string) =>
  (text: string): number => {
    if (!/^\d{1,12}$/.test(text)) throw new ExitError(`${flag} must be a whole number.`, 2);
    return Number(text);
  };

function parseLevel(text: string | undefined): Level {
  return (["debug", "info", "warn", "error"] as const).find((level) => level === text) ?? "info";
}

/** Resolves at the first signal. A second one, also of another kind, ends the process at once. */
function firstSignal(): Promise<void> {
  return new Promise((resolve) => {
    const received = (): void => {
      for (const signal of ENDING_SIGNALS) process.off(signal, received);
      resolve();
    };
    for (const signal of ENDING_SIGNALS) process.on(signal, received);
  });
}
