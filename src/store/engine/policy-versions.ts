// Policy versions within one group: each bump returns the next number at once, and the project row is written once per
// segment (bench: vendor/mint). A job that rolls back returns its numbers, so versions have no gaps.
import { sql } from "kysely";
import { statement } from "./statement.ts";
import type { BumpOptions, Tx } from "./tx.ts";

/** `uses`: capabilities that the bumps since the last write have added. */
type Counter = { version: number; written: number; forgetAt: number | null; uses: number };
export type Undo = { counter: Counter; version: number; forgetAt: number | null; uses: number };

const readVersion = statement<{ id: string }>()((db, p) =>
  db.selectFrom("projects").select("policy_version").where("id", "=", p.id),
);

/** `forgetAt`: the first version that deltas may begin at. The features that a project uses only grow. */
const writeVersion = statement<{ id: string; version: number; forgetAt: number | null; uses: number }>()((db, p) =>
  db
    .updateTable("projects")
    .set({
      policy_version: p.version,
      min_delta_version: sql<number>`coalesce(cast(${p.forgetAt} as bigint), min_delta_version)`,
      features: sql<number>`features | ${p.uses}`,
    })
    .where("id", "=", p.id),
);

type VersionRange = { project_id: string; first: number; last: number; changed_at: number };

/** Inserts all versions of the range with one statement instead of one per bump. */
const insertVersions = statement<VersionRange>()((db, p) =>
  db
    .withRecursive("made(version)", (made) =>
      made
        .selectNoFrom(sql<number>`cast(${p.first} as bigint)`.as("version"))
        .unionAll(made.selectFrom("made").select(sql<number>`version + 1`.as("version")).where("version", "<", p.last)),
    )
    .insertInto("policy_versions")
    .columns(["project_id", "version", "changed_at"])
    .expression((made) =>
      made
        .selectFrom("made")
        .select([
          sql<string>`${p.project_id}`.as("project_id"),
          "version",
          sql<number>`cast(${p.changed_at} as bigint)`.as("changed_at"),
        ]),
    ),
);

/** A project's new policy version. */
export type VersionChange = { project_id: string; version: number };

export class PolicyVersions {
  readonly #counters = new Map<string, Promise<Counter>>();

  async bump(tx: Tx, project_id: string, { forgetDeltas, uses }: BumpOptions, undo: Undo[]): Promise<number> {
    let loading = this.#counters.get(project_id);
    if (!loading) {
      loading = loadCounter(tx, project_id);
      this.#counters.set(project_id, loading);
      // A failed read must not fail later bumps: the error may be that of another job of the segment.
      loading.catch(() => this.#counters.delete(project_id));
    }
    const counter = await loading;
    undo.push({ counter, version: counter.version, forgetAt: counter.forgetAt, uses: counter.uses });
    counter.version++;
    counter.uses |= uses ?? 0;
    if (forgetDeltas) counter.forgetAt = counter.version;
    return counter.version;
  }

  undo(bumps: Undo[]): void {
    for (const { counter, ...before } of bumps.splice(0).toReversed()) Object.assign(counter, before);
  }

  /**
   * Undoes every bump since the last `write`. Bumps of concurrent jobs interleave, so they cannot be undone job by job.
   */
  async discardUnwritten(): Promise<void> {
    for (const loaded of await Promise.allSettled(this.#counters.values())) {
      if (loaded.status !== "fulfilled") continue;
      loaded.value.version = loaded.value.written;
      loaded.value.forgetAt = null;
      loaded.value.uses = 0;
    }
  }

  /** Writes the bumps since the last call; returns the new version of each changed project. */
  async write(tx: Tx, now: number): Promise<VersionChange[]> {
    const changes: VersionChange[] = [];
    const writes: Promise<unknown>[] = [];
    for (const [project_id, loading] of this.#counters) {
      const counter = await loading;
      if (counter.version === counter.written) continue;
      const { version, forgetAt, uses } = counter;
      writes.push(writeVersion.run(tx, { id: project_id, version, forgetAt, uses }));
      const range = { first: counter.written + 1, last: version };
      writes.push(insertVersions.run(tx, { project_id, ...range, changed_at: now }));
      counter.written = version;
      counter.forgetAt = null;
      counter.uses = 0;
      changes.push({ project_id, version });
    }
    await Promise.all(writes);
    return changes;
  }
}

async function loadCounter(tx: Tx, project_id: string): Promise<Counter> {
  const row = await readVersion.first(tx, { id: project_id });
  if (!row) throw new Error(`no project ${project_id} to bump`);
  return { version: row.policy_version, written: row.policy_version, forgetAt: null, uses: 0 };
}
