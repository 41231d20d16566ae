// The run's own PostgreSQL: a new cluster, in memory where there is a file system for it, removed when the run ends.
// Its keeper (a shell) stops the server and removes the folder when its input ends, so nothing stays behind after
// Ctrl-C or a killed run either.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { withPostgres } from "../../src/store/postgres/client.ts";
import { unusedPort } from "../processes/unused-port.ts";
import { memoryFolder } from "../setup/run-folder.ts";
import { until } from "../waiting.ts";

const run = promisify(execFile);

/** $1: the folder, $2…: the server. Arguments of the background job: POSIX gives it /dev/null as input, hence <&3. */
const KEEPER = `
  dir=$1; shift
  exec 3<&0
  "$@" >"$dir/log" 2>&1 & server=$!
  (cat <&3 >/dev/null; kill -QUIT $server) & # an immediate shutdown: nothing is kept
  wait $server
  rm -rf "$dir"`;

/** Keyrack refuses a server without fsync; in memory a sync costs nothing. */
const SETTINGS = {
  listen_addresses: "127.0.0.1",
  max_connections: "300",
  autovacuum: "off",
  jit: "off",
  wal_level: "minimal",
  max_wal_senders: "0",
};

/** Settings of a primary that standbys are made of, and of these. */
export const REPLICATED = { wal_level: "replica", max_wal_senders: "2" };

type Cluster = { url: string; stop(): Promise<void> };
type ServerSettings = Partial<Record<keyof typeof SETTINGS, string>>;

/** `bin` contains `initdb` and `postgres`. */
export async function startCluster(bin: string, settings: ServerSettings = {}): Promise<Cluster> {
  const auth = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums"];
  return startServer(bin, settings, ["initdb", ...auth, "--no-sync"]);
}

/** A standby of a primary that was started with REPLICATED: what was committed until now, and no later change. */
export async function startStandby(bin: string, primary: Cluster): Promise<Cluster> {
  const { port, username } = new URL(primary.url);
  const from = ["--host=127.0.0.1", `--port=${port}`, `--username=${username}`, "--checkpoint=fast", "--no-sync"];
  return startServer(bin, REPLICATED, ["pg_basebackup", ...from], (data) =>
    writeFileSync(join(data, "standby.signal"), ""),
  );
}

/** `program` of `bin` fills the data folder, `change` adds to it. */
async function startServer(
  bin: string,
  more: ServerSettings,
  [program, ...flagsOf]: [string, ...string[]],
  change: (data: string) => void = () => {},
): Promise<Cluster> {
  const user = await serverUser();
  const dir = mkdtempSync(join(memoryFolder() ?? tmpdir(), "keyrack-test-postgres-"));
  if (user) chownSync(dir, user.uid, user.gid);
  const options = { ...user, cwd: dir };
  const data = join(dir, "data");
  try {
    await run(join(bin, program), [...flagsOf, "-D", data], options);
    change(data);
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
  const port = await unusedPort();
  const settings = { ...SETTINGS, ...more, port, unix_socket_directories: dir };
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const server = [join(bin, "postgres"), "-D", data, ...flags];
  // A session of its own: Ctrl-C at the terminal must not reach the keeper before it has cleaned up.
  const keeper = spawn("sh", ["-c", KEEPER, "keeper", dir, ...server], {
    ...options,
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  const ended = once(keeper, "exit");
  const stop = async (): Promise<void> => {
    keeper.stdin.end();
    await ended;
  };
  // Its Unix socket takes less CPU time than the port, which is for proxies.
  const url = `postgres://postgres@127.0.0.1:${port}/postgres?host=${encodeURIComponent(dir)}`;
  try {
    await until(() => {
      if (keeper.exitCode !== null) throw new Error("the server did not start");
      return responds(url);
    });
    return { url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function responds(url: string): Promise<boolean> {
  return withPostgres(url, (client) => client.query("select 1")).then(
    () => true,
    () => false,
  );
}

/** PostgreSQL refuses to run as root: then it runs as `postgres`, or as `nobody`. */
async function serverUser(): Promise<{ uid: number; gid: number } | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const id = async (flag: string, name: string): Promise<number> => Number((await run("id", [flag, name])).stdout);
  const idsOf = async (name: string) => ({ uid: await id("-u", name), gid: await id("-g", name) });
  return idsOf("postgres").catch(() => idsOf("nobody"));
}
