// Writes that finish a restore, and reads from the database that a restore replaces.
import { sql } from "kysely";
import type { Source } from "../offline/source.ts";
import { statement } from "../engine/statement.ts";

/** Raises policy versions past any that were used after the backup, so that no version is used twice. */
export const VERSION_JUMP = 1_000_000;

export const projectVersions = statement<{ from: number }>()((db, p) =>
  db.selectFrom("projects").select(["id", "workspace_id", "policy_version"]).where("policy_version", ">=", p.from),
);

export const raiseVersion = statement<{ id: string; workspace_id: string; version: number }>()((db, p) =>
  db
    .updateTable("projects")
    .set({ policy_version: p.version, min_delta_version: p.version })
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

/** What happened in the replaced database after the backup. */
export type ReplacedState = {
  revoked: StoppedKey[];
  /** Reported as leaked and not revoked. */
  quarantined: StoppedKey[];
  versions: { id: string; policy_version: number }[];
};

export async function readReplacedState(source: Source, since: number): Promise<ReplacedState> {
  const stopped = (condition: string): Promise<StoppedKey[]> =>
    source.all<StoppedKey>(
      `select id, 'api_keys' as kind from api_keys where ${condition} >= $1
       union all select id, 'secret_keys' as kind from secret_keys where ${condition} >= $2`,
      [since, since],
    );
  return {
    revoked: await stopped("revoked_at"),
    quarantined: await stopped("revoked_at is null and quarantined_at"),
    versions: await source.all<{ id: string; policy_version: number }>("select id, policy_version from projects", []),
  };
}

/** Counts the keys that the restored database does not have as stopped, and lists those of them that it contains. */
export async function findLostStops(
  source: Source,
  stopped: readonly StoppedKey[],
  column: "revoked_at" | "quarantined_at",
): Promise<{ lost: number; revived: StoppedKey[] }> {
  const revived: StoppedKey[] = [];
  let lost = 0;
  for (const { id, kind } of stopped) {
    const [row] = await source.all<{ at: number | null }>(`select ${column} as at from ${kind} where id = $1`, [id]);
    if (row && row.at !== null) continue;
    lost++;
    if (row) revived.push({ id, kind });
  }
  return { lost, revived };
}
