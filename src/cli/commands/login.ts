// `keyrack login/logout/whoami`: a person's session or a secret key, saved in a profile.
import type { Command } from "commander";
import type { RouteOutput } from "../../client.ts";
import { findProfile, removeProfile, requireSavable, saveProfile, type Profile } from "../api/profiles.ts";
import {
  fetchJson,
  isFailure,
  parseJson,
  request,
  toExitError,
  type ApiResponse,
  type Target,
} from "../api/request.ts";
import {
  credential,
  DEFAULT_URL,
  requireBearer,
  resolveTarget,
  targetFlags,
  type TargetOptions,
} from "../api/target.ts";
import { recordTable } from "../ui/format.ts";
import {
  ExitError,
  escapeControls,
  examples,
  isTerminal,
  outputFlags,
  print,
  printResult,
  readStdin,
  type OutputOptions,
} from "../ui/output.ts";
import { readSecret } from "../ui/secret.ts";

type LoginOptions = OutputOptions & {
  url?: string;
  secretKey?: string;
  email?: string;
  passwordStdin?: true;
  workspaceId?: string;
  profile?: string;
};

const WORKSPACE = { method: "GET", path: "/v1/workspace" };
const ME = { method: "GET", path: "/v1/auth/me" };

export function addLoginCommand(program: Command): void {
  outputFlags(program.command("login"), "print only the profile's name")
    .description("Check a credential and save it in a profile that only you can read.")
    .option("--url <url>", "server URL (KEYRACK_URL)")
    .option("--secret-key <key>", "log in with a secret key; - reads it from stdin")
    .option("--email <address>", "log in as a person")
    .option("--password-stdin", "read the password from stdin instead of prompting")
    .option("--workspace-id <id>", "workspace to act in")
    .option("--profile <name>", "profile to save it in", "default")
    .addHelpText(
      "after",
      examples([
        "keyrack login --url https://keys.example.com --email ada@example.com",
        "keyrack login --secret-key - --profile ci < key.txt",
      ]),
    )
    .action((options: LoginOptions) => login(options));
}

export function addLogoutCommand(program: Command): void {
  outputFlags(program.command("logout"), "print only the profile's name")
    .description("End the profile's session on the server and remove the profile.")
    .option("--profile <name>", "profile to log out of (default: the current one)")
    .addHelpText("after", examples(["keyrack logout", "keyrack logout --profile ci"]))
    .action((options: OutputOptions & { profile?: string }) => logout(options));
}

export function addWhoamiCommand(program: Command): void {
  targetFlags(outputFlags(program.command("whoami"), "print only the id"))
    .addHelpText("after", examples(["keyrack whoami", "keyrack whoami --profile ci --json"]))
    .action((options: OutputOptions & TargetOptions) => whoami(options));
}

async function login(options: LoginOptions): Promise<void> {
  const url = options.url ?? (process.env.KEYRACK_URL || DEFAULT_URL); // an empty variable counts as not set
  const name = options.profile ?? "default";
  requireSavable(name);
  const profile = options.email
    ? await loginWithPassword(url, options.email, options)
    : await loginWithKey(url, options);
  saveProfile(name, profile);
  printResult(options, {
    json: { profile: name, url, about: profile.about },
    quiet: name,
    human: `Logged in to ${url} as ${escapeControls(profile.about ?? "")}. Saved as profile "${name}".`,
  });
}

async function loginWithKey(url: string, options: LoginOptions): Promise<Profile> {
  const given = options.secretKey ?? (isTerminal() ? await readSecret("Secret key") : undefined);
  if (!given) throw new ExitError("No credential given. Use --email or --secret-key.", 2);
  const secret_key = given === "-" ? await readStdin() : given;
  if (!secret_key) throw new ExitError("No secret key. Pass it on standard input.", 2);
  const target: Target = { url, bearer: secret_key, ...credential(secret_key, "--secret-key") };
  const response = await request(target, WORKSPACE);
  if (lacksPermission(response)) return { url, secret_key, about: "a restricted secret key" };
  const workspace = parseJson(response) as RouteOutput<"GET /v1/workspace">;
  return { url, secret_key, about: `workspace ${workspace.name}` };
}

/** A key that may only verify cannot read the workspace: that the server names its permissions proves it valid. */
function lacksPermission({ status, text }: ApiResponse): boolean {
  if (status !== 403) return false;
  try {
    const { error } = JSON.parse(text) as { error?: { details?: { path: string }[] } };
    return error?.details?.some(({ path }) => path === "permissions") ?? false;
  } catch {
    return false; // another program answers at this URL
  }
}

async function loginWithPassword(url: string, email: string, options: LoginOptions): Promise<Profile> {
  if (!options.passwordStdin && !isTerminal())
    throw new ExitError("Cannot prompt for the password without a terminal. Use --password-stdin.", 2);
  const password = options.passwordStdin ? await readStdin() : await readSecret("Password");
  const body = { email, password, ...(options.workspaceId && { workspace_id: options.workspaceId }) };
  const session = await fetchJson({ url, bearer: null }, "POST /v1/auth/sessions", { body });
  return { url, session_token: session.token, about: session.user.email };
}

async function logout(options: OutputOptions & { profile?: string }): Promise<void> {
  const found = findProfile(options.profile);
  if (!found) throw new ExitError("You are not logged in: there is no current profile.", 2);
  const { name, profile } = found;
  const bearer = profile.session_token;
  if (bearer) {
    const response = await request(
      { url: profile.url, bearer },
      { method: "DELETE", path: "/v1/auth/sessions/current" },
    );
    if (isFailure(response) && response.status !== 401) throw toExitError(response); // 401: it has ended already
  }
  removeProfile(name);
  printResult(options, {
    json: { profile: name, session_ended: bearer !== undefined },
    quiet: name,
    human: bearer ? `Ended the session and removed profile "${name}".` : `Removed profile "${name}".`,
  });
}

async function whoami(options: OutputOptions & TargetOptions): Promise<void> {
  const target: Target = requireBearer(resolveTarget(options));
  const person = target.bearer?.startsWith("krses_");
  const response = await request(target, person ? ME : WORKSPACE);
  const body = parseJson(response) as Record<string, unknown> & { id?: string; user?: { id: string } };
  if (options.json) return print(response.text);
  if (options.quiet) return print(body.id ?? body.user?.id ?? "");
  const { user, memberships: _memberships, ...others } = body;
  print(`${person ? "Session" : "Secret key"} on ${target.url}\n${recordTable({ ...user, ...others })}`);
}
