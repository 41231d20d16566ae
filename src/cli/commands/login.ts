// `keyrack login/logout/whoami`: a person's session or a secret key, kept in a profile.
import type { Command } from "commander";
import { findProfile, readProfiles, saveProfile, writeProfiles, type Profile } from "../api/profiles.ts";
import { recordTable } from "../ui/format.ts";
import { fetchJson, isRefusal, jsonOf, refusalOf, request, type Target } from "../api/request.ts";
import { ExitError, isTerminal, out, readStdin, safe } from "../ui/output.ts";
import {
  outputFlags,
  requireBearer,
  resolveTarget,
  targetFlags,
  type OutputOptions,
  type TargetOptions,
} from "../api/target.ts";

type LoginOptions = OutputOptions & {
  url?: string;
  secretKey?: string;
  email?: string;
  passwordStdin?: true;
  workspaceId?: string;
  profile?: string;
};
type Workspace = { id: string; name: string; slug: string };
type Session = { token: string; user: { email: string } };

const DEFAULT_URL = "http://127.0.0.1:4747";
const WORKSPACE = { method: "GET", path: "/v1/workspace" };
const ME = { method: "GET", path: "/v1/auth/me" };

export function addLoginCommand(program: Command): void {
  outputFlags(program.command("login"), "print only the profile's name")
    .description("Check a credential and keep it in a profile, readable by you only.")
    .option("--url <url>", "address of the server (KEYRACK_URL)")
    .option("--secret-key <key>", "log in with a secret key; - reads it from stdin")
    .option("--email <address>", "log in as a person")
    .option("--password-stdin", "read the password from stdin instead of asking")
    .option("--workspace-id <id>", "workspace to act in")
    .option("--profile <name>", "name to keep it under", "default")
    .addHelpText(
      "after",
      "\nExamples:\n  keyrack login --url https://keys.example.com --email ada@example.com\n  keyrack login --secret-key - --profile ci < key.txt",
    )
    .action((options: LoginOptions) => login(options));
}

export function addLogoutCommand(program: Command): void {
  outputFlags(program.command("logout"), "print only the profile's name")
    .description("End the profile's session on the server and forget the credential.")
    .option("--profile <name>", "profile to end (the current one)")
    .addHelpText("after", "\nExamples:\n  keyrack logout\n  keyrack logout --profile ci")
    .action((options: OutputOptions & { profile?: string }) => logout(options));
}

export function addWhoamiCommand(program: Command): void {
  targetFlags(outputFlags(program.command("whoami"), "print only the id"))
    .description("Whom the credential belongs to.")
    .addHelpText("after", "\nExamples:\n  keyrack whoami\n  keyrack whoami --profile ci --json")
    .action((options: OutputOptions & TargetOptions) => whoami(options));
}

async function login(options: LoginOptions): Promise<void> {
  const url = options.url ?? process.env.KEYRACK_URL ?? DEFAULT_URL;
  const profile = options.email ? await asPerson(url, options) : await withKey(url, options);
  const name = options.profile ?? "default";
  saveProfile(name, profile);
  if (options.json) return out(JSON.stringify({ profile: name, url, about: profile.about }));
  out(options.quiet ? name : `Logged in to ${url} as ${safe(profile.about ?? "")}. Kept as profile "${name}".`);
}

async function withKey(url: string, options: LoginOptions): Promise<Profile> {
  const given = options.secretKey ?? (isTerminal() ? await ask("Secret key") : undefined);
  if (!given) throw new ExitError("Nothing to log in with: give --email or --secret-key.", 2);
  const secret_key = given === "-" ? await readStdin() : given;
  const workspace = await fetchJson<Workspace>({ url, bearer: secret_key }, WORKSPACE);
  return { url, secret_key, about: `workspace ${workspace.name}` };
}

async function asPerson(url: string, options: LoginOptions): Promise<Profile> {
  if (!options.passwordStdin && !isTerminal())
    throw new ExitError("The password cannot be asked for here: use --password-stdin.", 2);
  const password = options.passwordStdin ? await readStdin() : await ask("Password");
  const body = { email: options.email, password, ...(options.workspaceId && { workspace_id: options.workspaceId }) };
  const session = await fetchJson<Session>({ url, bearer: null }, { method: "POST", path: "/v1/auth/sessions", body });
  return { url, session_token: session.token, about: session.user.email };
}

async function ask(message: string): Promise<string> {
  const { isCancel, password } = await import("@clack/prompts");
  const answer = await password({ message });
  if (isCancel(answer)) throw new ExitError("Nothing was changed.", 2);
  return answer;
}

async function logout(options: OutputOptions & { profile?: string }): Promise<void> {
  const found = findProfile(options.profile);
  if (!found) throw new ExitError("There is no profile to end.", 2);
  const { name, profile } = found;
  const bearer = profile.session_token;
  if (bearer) {
    const answer = await request({ url: profile.url, bearer }, { method: "DELETE", path: "/v1/auth/sessions/current" });
    if (isRefusal(answer) && answer.status !== 401) throw refusalOf(answer); // 401: it had ended already
  }
  const { current, profiles } = readProfiles();
  const { [name]: _gone, ...rest } = profiles;
  writeProfiles({ current: current === name ? null : current, profiles: rest });
  if (options.json) return out(JSON.stringify({ profile: name, session_ended: bearer !== undefined }));
  out(options.quiet ? name : `Profile "${name}" is gone${bearer ? " and its session has ended" : ""}.`);
}

async function whoami(options: OutputOptions & TargetOptions): Promise<void> {
  const target: Target = requireBearer(resolveTarget(options));
  const person = target.bearer?.startsWith("krses_");
  const answer = await request(target, person ? ME : WORKSPACE);
  const body = jsonOf(answer) as Record<string, unknown> & { id?: string; user?: { id: string } };
  if (options.json) return out(answer.text);
  if (options.quiet) return out(body.id ?? body.user?.id ?? "");
  const { user, memberships: _more, ...rest } = body;
  out(`${person ? "A session" : "A secret key"} on ${target.url}.\n${recordTable({ ...user, ...rest })}`);
}
