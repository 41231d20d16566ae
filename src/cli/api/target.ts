// Which server to call and with which credential: flags first, then the environment, then the profile.
import type { Command } from "commander";
import { ExitError } from "../ui/output.ts";
import { findProfile } from "./profiles.ts";
import type { Target } from "./request.ts";

export type TargetOptions = { url?: string; secretKey?: string; sessionToken?: string; profile?: string };

export const DEFAULT_URL = "http://127.0.0.1:4747";

export function targetFlags(command: Command): Command {
  return command
    .option("--url <url>", "server URL (KEYRACK_URL)")
    .option("--secret-key <key>", "secret key to use (KEYRACK_SECRET_KEY)")
    .option("--session-token <token>", "session to use (KEYRACK_SESSION_TOKEN)")
    .option("--profile <name>", "profile to use (KEYRACK_PROFILE)");
}

const sameServer = (a: string, b: string): boolean => a.replace(/\/+$/, "") === b.replace(/\/+$/, "");

export function resolveTarget(options: TargetOptions): Target {
  const { env } = process;
  // A profile named by flag wins over the environment.
  const named = options.profile ? findProfile(options.profile)?.profile : undefined;
  const fromFlag = options.secretKey ?? options.sessionToken;
  const fromEnv = env.KEYRACK_SECRET_KEY || env.KEYRACK_SESSION_TOKEN;
  const url = options.url ?? named?.url ?? env.KEYRACK_URL;
  if (fromFlag) return { url: url ?? findProfile(undefined)?.profile.url ?? DEFAULT_URL, bearer: fromFlag };
  if (fromEnv && !named) return { url: url ?? findProfile(undefined)?.profile.url ?? DEFAULT_URL, bearer: fromEnv };
  const profile = named ?? findProfile(undefined)?.profile;
  const bearer = profile?.secret_key ?? profile?.session_token ?? null;
  if (!url) return { url: profile?.url ?? DEFAULT_URL, bearer };
  return { url, bearer: profile && sameServer(url, profile.url) ? bearer : null };
}

export function requireBearer(target: Target): Target {
  if (target.bearer) return target;
  throw new ExitError(`No credential for ${target.url}. Set KEYRACK_SECRET_KEY, or run: keyrack login`, 2);
}
