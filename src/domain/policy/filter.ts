// The part of a project's policy that a poll requests, and the tag (ETag) that names its content at one version.
import { hash } from "node:crypto";
import type { Env } from "../../kernel/credentials.ts";
import type { Ctx } from "../core/context.ts";
import { requireProjectAccess, visibleEnv } from "../core/env-access.ts";
import type { Head } from "./head.ts";

export type Filter = { env: Env | null; tenants: readonly string[]; segment: string };

const unfiltered = (env: Env | null): Filter => Object.freeze({ env, tenants: [], segment: `${env ?? "all"}:all` });
const UNFILTERED = { live: unfiltered("live"), test: unfiltered("test"), all: unfiltered(null) };

export function filterOf(
  ctx: Ctx,
  query: { project_id: string; env?: Env | undefined; tenant_id?: readonly string[] | undefined },
): Filter {
  requireProjectAccess(ctx.actor, query.project_id);
  const env = visibleEnv(ctx.actor, query.env) ?? null;
  if (!query.tenant_id) return UNFILTERED[env ?? "all"];
  const tenants = [...new Set(query.tenant_id)].toSorted();
  return { env, tenants, segment: `${env ?? "all"}:t-${hash("sha256", tenants.join(",")).slice(0, 16)}` };
}

export function tagOf(kind: "snap" | "delta", head: Head, filter: Filter, version: number): string {
  return `${kind}:${head.project_id}:${filter.segment}:${version}`;
}
