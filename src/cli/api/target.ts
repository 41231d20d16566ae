// Which server to call and with which credential: flags first, then the environment, then the profile.
import type { Command } from "commander";
import { ExitError } from "../ui/output.ts";
import { findProfile, sameServer } from "./profiles.ts";
import type { Target } from "./request.ts";

export type TargetOptions = { url?: string; secretKey?: string; sessionToken?: string; profile?: string };
/** A null profile is the current one, whatever the environment names. */
type Source = Omit<TargetOptions, "profile"> & { profile?: string | null };

export const DEFAULT_URL = "http://127.0.0.1:4747";

export function targetFlags(command: Command): Command {
  return command
    .option("--url <url>", "server URL (KEYRACK_URL)")
    .option("--secret-key <key>", "secret key to use; KEYRACK_SECRET_KEY keeps it out of process lists")
    .option("--session-token <token>", "session to use; KEYRACK_SESSION_TOKEN keeps it out of process lists")
    .option("--profile <name>", "profile to use (KEYRACK_PROFILE)");
}

export function resolveTarget(options: Source): Target {
  const { env } = process;
  // A profile named by flag wins over the environment.
  const named = options.profile ? findProfile(options.profile)?.profile : undefined;
  const other = options.profile === null ? null : undefined;
  const url = options.url ?? named?.url ?? (env.KEYRACK_URL || undefined);
  const given =
    credential(options.secretKey, "--secret-key") ??
    credential(options.sessionToken, "--session-token") ??
    (named ? undefined : credential(env.KEYRACK_SECRET_KEY, "KEYRACK_SECRET_KEY")) ??
    (named ? undefined : credential(env.KEYRACK_SESSION_TOKEN, "KEYRACK_SESSION_TOKEN"));
  if (given) return { url: url ?? findProfile(other)?.profile.url ?? DEFAULT_URL, ...given };
  const profile = named ?? findProfile(other)?.profile;
  const saved = credential(profile?.secret_key ?? profile?.session_token, "the profile's credential");
  const none = { bearer: null };
  if (!url) return { url: profile?.url ?? DEFAULT_URL, ...(saved ?? none) };
  return { url, ...(profile && sameServer(url, profile.url) ? (saved ?? none) : none) };
}

const API_KEY = /^(?!krsk_)[a-z][a-z0-9]{1,8}_(live|test)_/;

/** A credential, with what to check if the server refuses it. */
export function credential(bearer: string | undefined, source: string): Pick<Target, "bearer" | "hint"> | undefined {
  if (!bearer) return undefined;
  const hint = API_KEY.test(bearer)
    ? `${source} is an API key, which customers use; a secret key begins with krsk_.`
    : `Check ${source}, or run: keyrack login`;
  return { bearer, hint };
}

export function requireBearer(target: Target): Target {
  if (target.bearer) return target;
  throw new ExitError(`No credential for ${target.url}. Set KEYRACK_SECRET_KEY, or run: keyrack login`, 2);
}
