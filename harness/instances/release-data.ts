// The data of every past release (test/fixtures/release-V.tar.gz) as databases that a test may open, and what the users
// of that release hold. Written by `npm run fixtures -- --release`.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withPostgres } from "../../src/store/postgres/client.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { freshDatabase, type Backend } from "../databases/backends.ts";

export type WorkspaceFacts = {
  id: string;
  slug: string;
  secret_keys: { live: string; test: string; revoked: string };
  project_id: string;
  tenant_id: string;
  policy_version: number;
  keys: { id: string; key: string; admitted: boolean }[];
  /** Requests that were answered: sent again, each has the same answer and no further effect. */
  answered: { route: string; raw: string; headers: Record<string, string>; status: number; body: object }[];
  /** Answers to reads. */
  read: { route: string; body: object }[];
  /** As an auditor keeps it. */
  checkpoint: { note: string; vkey: string };
};

export type DeploymentFacts = {
  workspaces: WorkspaceFacts[];
  people: { email: string; password: string; session: string }[];
};

export type ReleaseFacts = {
  version: string;
  schema: number;
  /** When the last request was answered. Receipts and sessions expire, so a test continues from here. */
  at: string;
  sqlite: DeploymentFacts;
  postgres: DeploymentFacts;
};

export const RELEASE_FIXTURES = fileURLToPath(new URL("../../test/fixtures", import.meta.url));

/** The versions that have left data behind. */
export const releases: readonly string[] = readdirSync(RELEASE_FIXTURES).flatMap(
  (name) => /^release-(.+)\.tar\.gz$/.exec(name)?.[1] ?? [],
);

export type ReleaseData = AsyncDisposable & {
  /** The data dir. */
  dir: string;
  target: DatabaseTarget;
  facts: DeploymentFacts;
  schema: number;
  /** In milliseconds. */
  at: number;
};

/** A copy of the release's data, removed at the end. */
export async function openRelease(version: string, backend: Backend): Promise<ReleaseData> {
  const folder = mkdtempSync(join(tmpdir(), "keyrack-test-"));
  execFileSync("tar", ["-xzf", join(RELEASE_FIXTURES, `release-${version}.tar.gz`), "-C", folder, "--no-same-owner"]);
  const facts = JSON.parse(readFileSync(join(folder, "facts.json"), "utf8")) as ReleaseFacts;
  const dir = join(folder, backend);
  const database = backend === "postgres" ? await freshDatabase(backend) : null;
  if (database?.target.kind === "postgres") await loadDump(database.target.url, join(dir, "dump.sql"));
  return {
    dir,
    target: database?.target ?? { kind: "sqlite", file: join(dir, "keyrack.db") },
    facts: facts[backend],
    schema: facts.schema,
    at: Date.parse(facts.at),
    async [Symbol.asyncDispose]() {
      await database?.dispose();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Runs a plain dump without psql, whose own commands begin with a backslash. The dump creates the schema. */
async function loadDump(url: string, file: string): Promise<void> {
  const sql = readFileSync(file, "utf8").replace(/^\\.*$/gm, "");
  await withPostgres(url, (client) => client.query(`drop schema public;\n${sql}`));
}
