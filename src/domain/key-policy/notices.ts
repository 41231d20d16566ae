// A daily digest of keys that are about to end, by expiry or for want of use. Each key, kind, threshold and date is
// reported once, across restarts and processes: what was reported is stored with the queued mail.
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS, utcDay } from "../../kernel/durations.ts";
import { LAST_ID } from "../../kernel/ids.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { KeyUse } from "../../store/queries/idle-keys.ts";
import {
  claimDigest,
  deleteNotices,
  digestOf,
  insertNotices,
  noticedKeyBehind,
  noticesOf,
  reapDigests,
  reapNotices,
  revokedNotices,
} from "../../store/queries/key-notices.ts";
import { membersOf } from "../../store/queries/memberships.ts";
import { anyTenantById } from "../../store/queries/tenants.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { KeyNoticeRow, ProjectRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import { parseKeyPolicy, type KeyPolicy } from "./key-policy.ts";
import { reap, record } from "../core/record.ts";
import { queueMail } from "../mail/outbox.ts";
import { keyDigestMail, type DigestLine } from "../mail/templates.ts";
import { idleDueAt, lackOfTelemetry, type BlockedBy } from "./idle.ts";
import { lastUseOf, mayBeIdle, walkKeyUses } from "./key-uses.ts";

const LINES_MAX = 50;
/** Keys in one digest; further ones wait for the next day. */
const KEYS_MAX = 5_000;
/** Notices looked through at a time for keys that were revoked. */
const PIECE_NOTICES = 500;
/**
 * How long the notice of an idle key holds after its date, as only some are revoked within a day. Then it gets another.
 */
const IDLE_KEEP_MS = 30 * DAY_MS;

type Kind = KeyNoticeRow["kind"];
type Due = { key: KeyUse; kind: Kind; due_at: number; thresholds: number[] };
type Project = Pick<ProjectRow, "id" | "workspace_id" | "key_policy" | "idle_changed_at">;

/** Sends the digest of one workspace's projects. `waiting`: idle keys beyond what is revoked within a day. */
export async function sendDigest(services: Services, projects: readonly Project[], waiting: number): Promise<void> {
  const [first] = projects;
  const now = services.clock.now();
  const day = utcDay(now);
  if (!first || (await wasSent(services, first, day))) return;
  const unreported: Due[] = [];
  for (const project of projects) unreported.push(...(await unreportedIn(services, project, now)));
  // Yesterday's may have been sent before keys had to wait, and they may be revoked before this day ends.
  const saysWaiting = waiting > 0 && (isDayEnding(services, now) || (await wasSent(services, first, day - 1)));
  if (unreported.length === 0 && !saysWaiting) return;
  const reported = unreported.toSorted(liveFirst).slice(0, KEYS_MAX);
  await record(services, async (tx) => {
    if ((await claimDigest.run(tx, { workspace_id: first.workspace_id, day })) === 0) return; // another process did
    const notices = reported.flatMap(({ key, kind, due_at, thresholds }) =>
      thresholds.map((threshold) => ({ key_id: key.id, kind, threshold, due_at })),
    );
    await insertNotices(tx, notices);
    await queueDigest(services, tx, first.workspace_id, { reported, waiting });
  });
  services.mail.wake();
}

async function wasSent({ store }: Services, { workspace_id }: Project, day: number): Promise<boolean> {
  return (await digestOf.first(store.read, { workspace_id, day })) !== undefined;
}

/**
 * Whether this is one of the last two runs of the day; two, as one may be late. On a day after one without a digest,
 * only then is one sent that is about no key: a key that comes near its end later on that day would have to wait for
 * the next day's.
 */
function isDayEnding({ settings }: Services, now: number): boolean {
  return utcDay(now + 2 * (settings.key_policy_every ?? DAY_MS)) > utcDay(now);
}

/** However many test keys end, they displace no live key from the digest. */
function liveFirst(a: Due, b: Due): number {
  return a.key.env === b.key.env ? a.due_at - b.due_at : a.key.env === "live" ? -1 : 1;
}

async function unreportedIn(services: Services, project: Project, now: number): Promise<Due[]> {
  const { read } = services.store;
  const { id: project_id, workspace_id } = project;
  const policy = parseKeyPolicy(project.key_policy);
  if (policy.notice_days.length === 0) return [];
  const { idle_revoke_days } = policy;
  const lacks = idle_revoke_days === null ? null : await lackOfTelemetry(read, project_id, policy, now);
  const unreported: Record<Env, Due[]> = { live: [], test: [] };
  // A disabled key may be enabled again: its expiry is reported like that of others.
  for await (const piece of walkKeyUses(read, { workspace_id, project_id, now, withDisabled: true })) {
    const near = piece.flatMap((key) => nearEnds(key, project, policy, lacks, now));
    const ids = near.map(({ key }) => key.id);
    const notices = Map.groupBy(await noticesOf(read, ids), ({ key_id }) => key_id);
    for (const end of near) {
      const reported = notices.get(end.key.id) ?? [];
      const due = crossed(end.due_at > now ? end : putOff(end, reported, policy, now), now);
      const found = unreported[end.key.env];
      if (found.length < KEYS_MAX && due.thresholds.length > 0 && !isReported(due, reported)) found.push(due);
    }
    if (unreported.live.length >= KEYS_MAX) break;
  }
  return [...unreported.live, ...unreported.test];
}

/**
 * The ends of a key within the longest of the thresholds, with the thresholds that count. Those of idle keys may have
 * passed.
 */
function nearEnds(key: KeyUse, project: Project, policy: KeyPolicy, lacks: BlockedBy | null, now: number): Due[] {
  if (key.quarantined_at !== null || key.successor_id !== null) return [];
  const { notice_days } = policy;
  const ends: Due[] = [];
  if (key.expires_at !== null) ends.push({ key, kind: "expiry", due_at: key.expires_at, thresholds: notice_days });
  if (lacks?.[key.env] === null && mayBeIdle(key)) {
    const due_at = idleDueAt(key, project, policy, now);
    // Each use moves the date: a threshold that was already behind at the last one would be crossed every day.
    const thresholds = notice_days.filter((days) => due_at - lastUseOf(key) > days * DAY_MS);
    ends.push({ key, kind: "idle", due_at, thresholds });
  }
  return ends.filter(({ due_at }) => due_at - now <= Math.max(...notice_days) * DAY_MS);
}

/**
 * A date that has passed: no key is revoked without a notice, so it is the one that was announced, or else a later one.
 * That leaves as much time as the longest threshold within the idle period, or if none is, as that period.
 */
function putOff(end: Due, reported: readonly KeyNoticeRow[], policy: KeyPolicy, now: number): Due {
  const { notice_days, idle_revoke_days } = policy;
  const announced = reported.filter(({ kind, due_at }) => kind === end.kind && due_at >= end.due_at);
  const days = notice_days.find((each) => each < (idle_revoke_days ?? 0)) ?? idle_revoke_days ?? 0;
  const due_at = announced.length > 0 ? Math.min(...announced.map((notice) => notice.due_at)) : now + days * DAY_MS;
  return { ...end, due_at, thresholds: notice_days };
}

/** Keeps the thresholds that have been crossed; missed ones are reported as one. */
function crossed(end: Due, now: number): Due {
  const left = end.due_at - now;
  return { ...end, thresholds: end.thresholds.filter((days) => left > 0 && left <= days * DAY_MS) };
}

function isReported({ kind, due_at, thresholds }: Due, reported: readonly KeyNoticeRow[]): boolean {
  const threshold = Math.min(...thresholds);
  return reported.some((row) => row.kind === kind && row.due_at === due_at && row.threshold === threshold);
}

/** To owners and admins with a verified address, else to the billing address, else to the log. */
async function queueDigest(
  services: Services,
  tx: Tx,
  workspace_id: string,
  { reported, waiting }: { reported: readonly Due[]; waiting: number },
): Promise<void> {
  const workspace = await workspaceById.first(tx, { id: workspace_id });
  const members = await membersOf.all(tx, { workspace_id });
  const people = members.filter(({ role, email_verified_at }) => role !== "member" && email_verified_at !== null);
  const billing = workspace?.billing_email ? [workspace.billing_email] : [];
  const addresses = people.length > 0 ? people.map(({ email }) => email) : billing;
  const counts = {
    expiring: reported.filter(({ kind }) => kind === "expiry").length,
    idle: reported.filter(({ kind }) => kind === "idle").length,
    waiting,
  };
  if (addresses.length === 0)
    services.log.warn("keys are about to expire or be revoked, and there is no address", { workspace_id, ...counts });
  const lines: DigestLine[] = [];
  for (const { key, kind, due_at } of reported.slice(0, LINES_MAX)) {
    const tenant = await anyTenantById.first(tx, { workspace_id, id: key.tenant_id });
    const at = formatTimestamp(due_at).slice(0, 10);
    lines.push({ display_prefix: key.display_prefix, tenant: tenant?.external_id ?? "", at, kind });
  }
  const message = keyDigestMail(services, workspace?.name ?? "", { ...counts, lines });
  for (const to of addresses) await queueMail(services, tx, to, message);
}

export async function forgetNotices(services: Services, now: number): Promise<void> {
  const yesterday = utcDay(now) - 1;
  await reap(services, reapNotices, { before: now, idleBefore: now - IDLE_KEEP_MS });
  await forgetRevoked(services);
  await reap(services, reapDigests, { before: yesterday });
}

async function forgetRevoked(services: Services): Promise<void> {
  const { read } = services.store;
  for (let after = ""; ; ) {
    const end = await noticedKeyBehind.first(read, { after, skipped: PIECE_NOTICES - 1 });
    const revoked = await revokedNotices.all(read, { after, upTo: end?.key_id ?? LAST_ID });
    const ids = revoked.map(({ key_id }) => key_id);
    if (ids.length > 0) await record(services, (tx) => deleteNotices(tx, ids));
    if (!end) return;
    after = end.key_id;
    await yieldToEventLoop();
  }
}
