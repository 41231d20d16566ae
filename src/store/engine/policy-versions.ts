// Policy versions inside one group: each bump gets the next number at once, the project row is written once at the end.
// A job that rolls back takes its bumps with it, so versions have no gaps.
import { sql } from "kysely";
import { statement, type Tx } from "./statement.ts";

type Counter = { version: number; written: number; forgetAt: number | null };
type Undo = { counter: Counter; version: number; forgetAt: number | null };

const readVersion = statement<{ id: string }>()((db, p) =>
  db.selectFrom("projects").select("policy_version").where("id", "=", p.id),
);

const writeVersion = statement<{ id: string; version: number }>()((db, p) =>
  db.updateTable("projects").set({ policy_version: p.version }).where("id", "=", p.id),
);

const forgetDeltas = statement<{ id: string; version: number }>()((db, p) =>
  db.updateTable("projects").set({ min_delta_version: p.version }).where("id", "=", p.id),
);

type Logged = { project_id: string; first: number; last: number; changed_at: number };

/** All from the first to the last by one statement: a row each would cost every mint of a group one. */
const logVersions = statement<Logged>()((db, p) =>
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

export type Bumped = { project_id: string; version: number };

export class PolicyVersions {
  readonly #counters = new Map<string, Promise<Counter>>();

  async bump(tx: Tx, project_id: string, forget: boolean, undo: Undo[]): Promise<number> {
    let loading = this.#counters.get(project_id);
    if (!loading) {
      loading = loadCounter(tx, project_id);
      this.#counters.set(project_id, loading);
      // A read that failed (another job may have spoilt the segment) must not fail everyone who asks later.
      loading.catch(() => this.#counters.delete(project_id));
    }
    const counter = await loading;
    undo.push({ counter, version: counter.version, forgetAt: counter.forgetAt });
    counter.version++;
    if (forget) counter.forgetAt = counter.version;
    return counter.version;
  }

  undo(bumps: Undo[]): void {
    for (const { counter, version, forgetAt } of bumps.splice(0).toReversed())
      Object.assign(counter, { version, forgetAt });
  }

  /** Takes back every bump since the last `write`. Jobs that ran side by side cannot be undone one by one: they mixed. */
  async forgetUnwritten(): Promise<void> {
    for (const loaded of await Promise.allSettled(this.#counters.values())) {
      if (loaded.status !== "fulfilled") continue;
      loaded.value.version = loaded.value.written;
      loaded.value.forgetAt = null;
    }
  }

  /** Writes what was bumped since the last call; answers the projects that moved. */
  async write(tx: Tx, now: number): Promise<Bumped[]> {
    const moved: Bumped[] = [];
    const writes: Promise<unknown>[] = [];
    for (const [project_id, loading] of this.#counters) {
      const counter = await loading;
      if (counter.version === counter.written) continue;
      writes.push(writeVersion.run(tx, { id: project_id, version: counter.version }));
      const range = { first: counter.written + 1, last: counter.version };
      writes.push(logVersions.run(tx, { project_id, ...range, changed_at: now }));
      if (counter.forgetAt !== null) writes.push(forgetDeltas.run(tx, { id: project_id, version: counter.forgetAt }));
      counter.written = counter.version;
      counter.forgetAt = null;
      moved.push({ project_id, version: counter.version });
    }
    await Promise.all(writes);
    return moved;
  }
}

export type { Undo };

async function loadCounter(tx: Tx, project_id: string): Promise<Counter> {
  const row = await readVersion.first(tx, { id: project_id });
  if (!row) throw new Error(`no project ${project_id} to bump`);
  return { version: row.policy_version, written: row.policy_version, forgetAt: null };
}
