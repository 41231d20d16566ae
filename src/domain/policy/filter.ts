// The part of a project's policy that a poll requests, and the tag (ETag) that names its content at one version. What a
// node gets also depends on its variant: the capabilities that it announces and the project uses. So a project that
// uses none has one variant, the same for nodes of every release.
import { hash } from "node:crypto";
import type { Env } from "../../kernel/credentials.ts";
import { failField } from "../../kernel/errors.ts";
import { CAP, capabilitiesIn, NO_CAPS, parseCaps } from "../../kernel/policy/capabilities.ts";
import type { Ctx } from "../core/context.ts";
import { requireProjectAccess, visibleEnv } from "../core/env-access.ts";
import type { Head } from "./head.ts";

/**
 * `announced`: the known capabilities of the node. `segments`: with the suffix of each variant, if they are
 * prepared.
 */
export type Filter = {
  env: Env | null;
  tenants: readonly string[];
  segment: string;
  segments: readonly string[] | null;
  announced: number;
};

const MASKS = Array.from({ length: Math.max(...Object.values(CAP)) * 2 }, (_, mask) => mask);
const SUFFIXES = MASKS.map((mask) => (mask === NO_CAPS ? "" : `+${capabilitiesIn(mask).join(".")}`));

/** Prepared, so that a poll with capabilities costs the same as one without. bench: rules/unchanged-poll */
function unfiltered(env: Env | null): Filter[] {
  const segment = `${env ?? "all"}:all`;
  const segments = SUFFIXES.map((suffix) => segment + suffix);
  return MASKS.map((announced) => Object.freeze({ env, tenants: [], segment, segments, announced }));
}
const UNFILTERED = { live: unfiltered("live"), test: unfiltered("test"), all: unfiltered(null) };

export type FilterQuery = {
  project_id: string;
  env?: Env | undefined;
  tenant_id?: readonly string[] | undefined;
  caps?: string | undefined;
};

export function filterOf(ctx: Ctx, query: FilterQuery): Filter {
  requireProjectAccess(ctx.actor, query.project_id);
  const env = visibleEnv(ctx.actor, query.env) ?? null;
  const announced = query.caps === undefined ? NO_CAPS : readCaps(query.caps);
  const known = UNFILTERED[env ?? "all"][announced];
  if (!query.tenant_id && known) return known;
  const tenants = [...new Set(query.tenant_id)].toSorted();
  const segment = `${env ?? "all"}:t-${hash("sha256", tenants.join(",")).slice(0, 16)}`;
  return { env, tenants, segment, segments: null, announced };
}

/** The last valid list: the nodes of a fleet send the same one. bench: rules/unchanged-poll */
let last: { text: string; caps: number } | null = null;

function readCaps(text: string): number {
  if (last?.text === text) return last.caps;
  const caps = parseCaps(text);
  if (caps === null) throw failField("invalid_query", "caps", "must be distinct names, joined by commas");
  last = { text, caps };
  return caps;
}

/** The capabilities that the node announces and the project uses. */
export function variantOf(head: Pick<Head, "features">, { announced }: Filter): number {
  return announced & head.features;
}

/** Names what is selected, for cache keys and tags. */
export function segmentOf(head: Head, filter: Filter): string {
  const variant = variantOf(head, filter);
  return filter.segments?.[variant] ?? filter.segment + (SUFFIXES[variant] ?? "");
}

export function tagOf(kind: "snap" | "delta", head: Head, filter: Filter, version: number): string {
  return `${kind}:${head.project_id}:${segmentOf(head, filter)}:${version}`;
}

/** The tag of a delta that ends before the newest change: keys that have changed again since are in a later one. */
export function cutTagOf(head: Head, filter: Filter, version: number): string {
  return cutTag(head, segmentOf(head, filter), version);
}

/**
 * The tags that a cut delta to this version may have had. The project may use more capabilities since then, never
 * fewer, and the node may announce others.
 */
export function cutTagsOf(head: Head, { segment }: Filter, version: number): string[] {
  const variants = MASKS.filter((mask) => (mask & head.features) === mask);
  return variants.map((variant) => cutTag(head, segment + (SUFFIXES[variant] ?? ""), version));
}

function cutTag({ project_id }: Head, segment: string, version: number): string {
  return `delta:${project_id}:${segment}+cut:${version}`;
}
