// A daily digest of keys that are about to end, by expiry or for want of use. Each key, kind, threshold and date is reported once,
// across restarts and processes: what was reported is stored with the queued mail.
import { formatTimestamp } from "../../kernel/timestamps.ts";
import type { KeyUse } from "../../store/queries/idle-keys.ts";
import {
  claimDigest,
  digestOf,
  insertNotices,
  noticesOf,
  reapDigests,
  reapNotices,
} from "../../store/queries/key-notices.ts";
import { membersOf } from "../../store/queries/memberships.ts";
import { anyTenantById } from "../../store/queries/tenants.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import type { Tx } from "../../store/engine/statement.ts";
import type { KeyNoticeRow, ProjectRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import { DAY_MS, leadDays, parseKeyPolicy, type KeyPolicy } from "../core/key-policy.ts";
import { deleteInPieces, record } from "../core/record.ts";
import { queueMail } from "../mail/outbox.ts";
import { keyDigestMail, type DigestLine } from "../mail/templates.ts";
import { blockedBy, type BlockedBy } from "./idle.ts";
import { lastUseOf, mayBeIdle, walkKeyUses } from "./key-uses.ts";

const LINES_MAX = 50;
/** More wait for the next day. */
const KEYS_MAX = 5_000;

type Kind = KeyNoticeRow["kind"];
type Due = { key: KeyUse; kind: Kind; due_at: number; thresholds: number[] };
type Project = Pick<ProjectRow, "id" | "workspace_id" | "key_policy" | "idle_changed_at">;

/** Of projects of one workspace. `waiting`: idle keys above what is revoked within a day. */
export async function sendDigest(services: Services, projects: readonly Project[], waiting: number): Promise<void> {
  const [first] = projects;
  const now = services.clock.now();
  const day = Math.floor(now / DAY_MS);
  if (!first || (await digestOf.first(services.store.read, { workspace_id: first.workspace_id, day }))) return;
  const unreported: Due[] = [];
  for (const project of projects) unreported.push(...(await unreportedIn(services, project, now)));
  if (unreported.length === 0) return;
  const reported = unreported.toSorted((a, b) => a.due_at - b.due_at).slice(0, KEYS_MAX);
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

async function unreportedIn(services: Services, project: Project, now: number): Promise<Due[]> {
  const { read } = services.store;
  const { id: project_id, workspace_id } = project;
  const policy = parseKeyPolicy(project.key_policy);
  if (policy.notice_days.length === 0) return [];
  const { idle_revoke_days } = policy;
  const blocks = idle_revoke_days === null ? null : await blockedBy(read, project, policy, now);
  const unreported: Due[] = [];
  for await (const piece of walkKeyUses(read, { workspace_id, project_id, now })) {
    const due = piece.flatMap((key) => dueOf(key, project, policy, blocks, now));
    const ids = due.map(({ key }) => key.id);
    const reported = new Set((await noticesOf(read, ids)).map(nameOf));
    const isReported = ({ key, thresholds, ...rest }: Due): boolean =>
      reported.has(nameOf({ key_id: key.id, threshold: Math.min(...thresholds), ...rest }));
    unreported.push(...due.filter((each) => !isReported(each)));
    if (unreported.length >= KEYS_MAX) break;
  }
  return unreported;
}

const nameOf = ({ key_id, kind, threshold, due_at }: KeyNoticeRow): string =>
  `${key_id} ${kind} ${threshold} ${due_at}`;

/** The thresholds that a key has crossed; those that were missed are reported as one. */
function dueOf(key: KeyUse, project: Project, policy: KeyPolicy, blocks: BlockedBy | null, now: number): Due[] {
  if (key.quarantined_at !== null || key.successor_id !== null) return [];
  const { notice_days } = policy;
  const due: Due[] = [];
  const add = (kind: Kind, due_at: number, days: number[]): void => {
    const thresholds = days.filter((threshold) => due_at - now <= threshold * DAY_MS);
    if (due_at > now && thresholds.length > 0) due.push({ key, kind, due_at, thresholds });
  };
  if (key.expires_at !== null) add("expiry", key.expires_at, notice_days);
  const block = blocks?.[key.env] ?? null;
  if (policy.idle_revoke_days !== null && mayBeIdle(key) && (block === null || block === "too_recent")) {
    const starts = (project.idle_changed_at ?? now) + leadDays(policy) * DAY_MS;
    const used_at = lastUseOf(key);
    const due_at = Math.max(used_at + policy.idle_revoke_days * DAY_MS, starts);
    // Each use moves the date: a threshold that was already behind at the last one would be crossed every day.
    add(
      "idle",
      due_at,
      notice_days.filter((days) => due_at - used_at > days * DAY_MS),
    );
  }
  return due;
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
  const today = Math.floor(now / DAY_MS);
  await deleteInPieces(services, (tx, limit) => reapNotices.run(tx, { before: now, limit }));
  await deleteInPieces(services, (tx, limit) => reapDigests.run(tx, { before: today, limit }));
}
