// Writes that finish a restore, and reads from the database that a restore replaces.
import { sql } from "kysely";
import { chunked } from "../../kernel/chunks.ts";
import { allIfKnown, type Source } from "../offline/source.ts";
import { jsonList } from "../engine/raw-query.ts";
import { statement } from "../engine/statement.ts";

/** Raises policy versions past any that were used after the backup, so that no version is used twice. */
export const VERSION_JUMP = 1_000_000;

export const projectVersions = statement<{ from: number }>()((db, p) =>
  db.selectFrom("projects").select(["id", "workspace_id", "policy_version"]).where("policy_version", ">=", p.from),
);

/** Also restarts the lead of a rule about idle keys: the uses of keys after the backup are not known. */
export const raiseVersion = statement<{ id: string; workspace_id: string; version: number; now: number }>()((db, p) =>
  db
    .updateTable("projects")
    .set({
      policy_version: p.version,
      min_delta_version: p.version,
      idle_changed_at: sql`case when idle_changed_at is null then null else cast(${p.now} as bigint) end`,
    })
    .where("workspace_id", "=", p.workspace_id)
    .where("id", "=", p.id),
);

/** Logs the raised versions; otherwise the next delta would be a snapshot. */
export const logVersions = statement<{ now: number }>()((db, p) =>
  db
    .insertInto("policy_versions")
    .columns(["project_id", "version", "changed_at"])
    .expression((eb) =>
      eb
        .selectFrom("projects")
        .select(["id", "policy_version", sql<number>`cast(${p.now} as bigint)`.as("changed_at")]),
    ),
);

export const endAllSessions = statement<{ now: number }>()((db, p) =>
  db
    .updateTable("sessions")
    .set({ revoked_at: p.now })
    .where("revoked_at", "is", null)
    .where("expires_at", ">", p.now)
    .where("absolute_expires_at", ">", p.now),
);

export const endAllTokens = statement<{ now: number }>()((db, p) =>
  db.updateTable("one_time_tokens").set({ ended_at: p.now }).where("ended_at", "is", null),
);

export const endAllSetupTokens = statement<{ now: number }>()((db, p) =>
  db.updateTable("setup_tokens").set({ ended_at: p.now }).where("ended_at", "is", null),
);

/** Revokes invitations that can still be accepted. */
export const endAllInvites = statement<{ now: number }>()((db, p) =>
  db
    .updateTable("workspace_invites")
    .set({ revoked_at: p.now })
    .where("accepted_at", "is", null)
    .where("revoked_at", "is", null)
    .where("expires_at", ">", p.now),
);

/** Messages that cannot be decrypted any more. */
export const dropUnsentMail = statement<{ now: number; why: string }>()((db, p) =>
  db
    .updateTable("outbox")
    .set({ state: "dead", sealed_message: null, settled_at: p.now, last_error: p.why })
    .where("state", "=", "queued"),
);

export const dropSealedResponses = statement<{ body_stored: number }>()((db, p) =>
  db
    .updateTable("idempotency_records")
    .set({ sealed_response: null, body_stored: p.body_stored })
    .where("sealed_response", "is not", null),
);

export type StoppedKey = { id: string; kind: "api_keys" | "secret_keys" };

/** A key or a tenant that was stopped for a while. */
export type Paused = { id: string; kind: "api_keys" | "tenants" };

type Deleted = { id: string; kind: "projects" | "tenants" };

/** A key or a tenant whose keys may be used from some networks only. */
export type Confined = Paused & { allowed_cidrs: string; ip_mode: string };

/** A balance of a quota; `spent` in the period that began at `period_start`. */
export type ReplacedBalance = {
  subject_id: string;
  env: string;
  quota_id: string;
  calendar: string;
  period_start: number;
  spent: number;
};

/** A grant serves every calendar of its balance. */
export type ReplacedGrant = Pick<ReplacedBalance, "subject_id" | "env" | "quota_id"> & {
  id: string;
  units: number;
  reference: string | null;
  voided_at: number | null;
};

/** What happened in the replaced database after the backup. */
export type ReplacedState = {
  disabled: Paused[];
  suspended: Paused[];
  /** All that are confined: when a list changed is not stored. */
  confined: Confined[];
  revoked: StoppedKey[];
  /** Reported as leaked and not revoked. */
  quarantined: StoppedKey[];
  /** Balances of quotas that were used. */
  balances: ReplacedBalance[];
  /** Grants of quotas that were created or voided. */
  grants: ReplacedGrant[];
  deletedProjects: Deleted[];
  deletedTenants: Deleted[];
  /** All of them: a removed member leaves no row. */
  members: Member[];
};

type Member = { workspace_id: string; user_id: string; role: string };

const ROLES = ["member", "admin", "owner"];
/** The service is down during a restore, and a workspace may have deleted a million tenants since the backup. */
const IDS_PER_QUERY = 1_000;

function readMembers(source: Source): Promise<Member[]> {
  return allIfKnown<Member>(source, "select workspace_id, user_id, role from memberships", []);
}

/** Counts members of the restored database who were not members any more, or had a lower role. */
export async function countReturnedMembers(source: Source, before: readonly Member[]): Promise<number> {
  const roles = new Map(before.map(({ workspace_id, user_id, role }) => [`${workspace_id} ${user_id}`, role]));
  const rankOf = (role: string | undefined): number => (role === undefined ? -1 : ROLES.indexOf(role));
  const now = await readMembers(source);
  return now.filter((one) => rankOf(one.role) > rankOf(roles.get(`${one.workspace_id} ${one.user_id}`))).length;
}

type ProjectVersion = { id: string; policy_version: number };

export function readVersions(source: Source): Promise<ProjectVersion[]> {
  return source.all<ProjectVersion>("select id, policy_version from projects", []);
}

export async function readReplacedState(source: Source, since: number): Promise<ReplacedState> {
  const stopped = (condition: string): Promise<StoppedKey[]> =>
    source.all<StoppedKey>(
      `select id, 'api_keys' as kind from api_keys where ${condition} >= $1
       union all select id, 'secret_keys' as kind from secret_keys where ${condition} >= $2`,
      [since, since],
    );
  return {
    disabled: await changedSince(source, "api_keys", "revoked_at is null and disabled_at", since),
    suspended: await changedSince(source, "tenants", "deleted_at is null and suspended_at", since),
    confined: [
      ...(await confinedOf(source, "api_keys", "revoked_at")),
      ...(await confinedOf(source, "tenants", "deleted_at")),
    ],
    revoked: await stopped("revoked_at"),
    quarantined: await stopped("revoked_at is null and quarantined_at"),
    balances: await balancesSince(source, since),
    grants: await grantsSince(source, since),
    deletedProjects: await changedSince(source, "projects", "deleted_at", since),
    deletedTenants: await changedSince(source, "tenants", "deleted_at", since),
    members: await readMembers(source),
  };
}

async function changedSince<K extends string>(source: Source, kind: K, condition: string, since: number) {
  const rows = await allIfKnown<{ id: string }>(source, `select id from ${kind} where ${condition} >= $1`, [since]);
  return rows.map(({ id }) => ({ id, kind }));
}

const BALANCE = "subject_id, env, quota_id, calendar, period_start, taken as spent";

function balancesSince(source: Source, since: number): Promise<ReplacedBalance[]> {
  return allIfKnown<ReplacedBalance>(source, `select ${BALANCE} from quota_balances where used_at >= $1`, [since]);
}

const periodOf = ({ subject_id, env, quota_id, calendar, period_start }: ReplacedBalance): string =>
  JSON.stringify([subject_id, env, quota_id, calendar, period_start]);

/** Balances of which the restored database has fewer units spent, or another period. */
export async function findMovedBalances(
  source: Source,
  balances: readonly ReplacedBalance[],
): Promise<ReplacedBalance[]> {
  const moved: ReplacedBalance[] = [];
  for (const some of chunked(balances, IDS_PER_QUERY)) {
    const query = `select ${BALANCE} from quota_balances where subject_id in ${jsonList(source.kind, "$1", "text")}`;
    const now = await allIfKnown<ReplacedBalance>(source, query, [JSON.stringify(some.map((one) => one.subject_id))]);
    const kept = new Map(now.map((one) => [periodOf(one), one.spent]));
    moved.push(...some.filter((one) => one.spent > (kept.get(periodOf(one)) ?? 0)));
  }
  return moved;
}

function grantsSince(source: Source, since: number): Promise<ReplacedGrant[]> {
  const query = `select id, subject_id, env, quota_id, units, reference, voided_at from quota_grants
    where created_at >= $1 or voided_at >= $2`;
  return allIfKnown<ReplacedGrant>(source, query, [since, since]);
}

/** Grants that the restored database lacks, with their references, and voided ones that have units in it again. */
export async function findUndoneGrants(source: Source, grants: readonly ReplacedGrant[]) {
  const lost: ReplacedGrant[] = [];
  const revived: ReplacedGrant[] = [];
  for (const some of chunked(grants, IDS_PER_QUERY)) {
    const query = `select id, remaining from quota_grants where id in ${jsonList(source.kind, "$1", "text")}`;
    const ids = [JSON.stringify(some.map(({ id }) => id))];
    const now = await allIfKnown<{ id: string; remaining: number }>(source, query, ids);
    const kept = new Map(now.map((one) => [one.id, one.remaining]));
    lost.push(...some.filter(({ id }) => !kept.has(id)));
    revived.push(...some.filter(({ id, voided_at }) => voided_at !== null && (kept.get(id) ?? 0) > 0));
  }
  return { lost, revived };
}

async function confinedOf(source: Source, kind: Paused["kind"], ended: string): Promise<Confined[]> {
  const query = `select id, allowed_cidrs, ip_mode from ${kind} where allowed_cidrs <> '[]' and ip_mode = 'enforce'
    and ${ended} is null`;
  const rows = await allIfKnown<Omit<Confined, "kind">>(source, query, []);
  return rows.map((row) => ({ ...row, kind }));
}

/** `lost`: how many records the restored database does not have as they were. `back`: those of them that it has. */
type Undone<R> = { lost: number; back: R[] };

/** Records whose address list the restored database does not have. */
export function findWidened(source: Source, confined: readonly Confined[]): Promise<Undone<Confined>> {
  const isSame = (one: Confined, now: State): boolean =>
    now.allowed_cidrs === one.allowed_cidrs && now.ip_mode === one.ip_mode;
  return findUndone(source, confined, "allowed_cidrs, ip_mode", isSame);
}

/** Records that the restored database does not have as revoked, disabled and so on. */
export function findLostStops<R extends StoppedKey | Paused | Deleted>(
  source: Source,
  stopped: readonly R[],
  column: "revoked_at" | "quarantined_at" | "disabled_at" | "suspended_at" | "deleted_at",
): Promise<Undone<R>> {
  return findUndone(source, stopped, `${column} as at`, (_one, { at }) => at !== null);
}

/** The columns of a record that are compared. */
type State = Partial<Pick<Confined, "allowed_cidrs" | "ip_mode">> & { at?: number | null };

async function findUndone<R extends { id: string; kind: string }>(
  source: Source,
  before: readonly R[],
  columns: string,
  isSame: (one: R, now: State) => boolean,
): Promise<Undone<R>> {
  const back: R[] = [];
  let lost = 0;
  for (const [kind, all] of Map.groupBy(before, (one) => one.kind))
    for (const some of chunked(all, IDS_PER_QUERY)) {
      const among = `from ${kind} where id in ${jsonList(source.kind, "$1", "text")}`;
      const ids = [JSON.stringify(some.map(({ id }) => id))];
      const found = await source.all<{ id: string }>(`select id ${among}`, ids);
      const states = await allIfKnown<State & { id: string }>(source, `select id, ${columns} ${among}`, ids);
      const has = new Set(found.map(({ id }) => id));
      const kept = new Map(states.map((state) => [state.id, state]));
      for (const one of some) {
        const now = kept.get(one.id);
        if (now && isSame(one, now)) continue;
        lost++;
        if (has.has(one.id)) back.push(one);
      }
    }
  return { lost, back };
}
