// A process whose address leads to a standby, as after a failover that its network has not followed: it serves nothing
// from there, because a standby lacks the newest revocations, and works again once the address leads to a primary.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { REPLICATED, startCluster, startStandby } from "../../../harness/databases/postgres-cluster.ts";
import { installedBin } from "../../../harness/databases/postgres-server.ts";
import { rawSql } from "../../../harness/databases/raw-sql.ts";
import { startLocalInstance, type LocalInstance } from "../../../harness/instances/local-instance.ts";
import { makeWorld, must } from "../../../harness/instances/world.ts";
import { portOf, stableAddress } from "../../../harness/processes/stable-address.ts";
import { skipOrFail } from "../../../harness/processes/tools.ts";
import { until } from "../../../harness/waiting.ts";
import { IS_KEYRACK } from "../../../src/store/postgres/connected-versions.ts";

const bin = installedBin() ?? "";
const hasPrograms = existsSync(join(bin, "pg_basebackup"));
if (!hasPrograms) skipOrFail("pg_basebackup", "standbys");

const targetOf = (url: string) => ({ kind: "postgres", url, pool: 4 }) as const;

/** One process on a primary, and another at an address that leads to the primary first. */
async function twoProcesses() {
  await using started = new AsyncDisposableStack();
  let stack: AsyncDisposableStack = started;
  const primary = await startCluster(bin, REPLICATED);
  started.defer(() => primary.stop());
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
  started.defer(() => rmSync(dir, { recursive: true, force: true }));
  const address = started.use(await stableAddress());
  address.target = portOf(primary.url);
  const start = async (name: string, url: string): Promise<LocalInstance> => {
    const flags = { master_key_file: join(dir, "a", "master.key") };
    const one = await startLocalInstance({ target: targetOf(url), dir: join(dir, name), flags });
    stack.defer(() => one.app.stop());
    return one;
  };
  const a = await start("a", primary.url);
  const b = await start("b", `postgres://postgres@${address.host}/postgres`);
  stack = started.move();
  const copy = async (): Promise<number> => {
    const standby = await startStandby(bin, primary);
    stack.defer(() => standby.stop());
    return portOf(standby.url);
  };
  return { a, b, start, primary, copy, address, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

describe.runIf(hasPrograms)("a process whose address leads to a standby", () => {
  it("serves nothing from there, so that a complete receipt of another process is true, and recovers", async () => {
    await using world = await twoProcesses();
    const { a, b, start, primary, copy, address } = world;
    const { key, project_id, tenant_id } = await makeWorld(a.call, a.app.bootstrap.token ?? "", "www");
    const minted = await must(a.call(key, "POST /v1/keys", { project_id, tenant_id, env: "live" }));
    const poll = (at: LocalInstance, path: string) => at.call(key, `GET /v1/policy/${path}project_id=${project_id}`);
    expect((await poll(b, "snapshot?")).body.keys).toHaveLength(1);

    address.target = await copy();
    await rawSql(
      targetOf(primary.url),
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity where ${IS_KEYRACK}`,
    );
    const revoked = await must(a.call(key, `POST /v1/keys/${minted.id}/revoke?wait=true`, {}));
    expect(revoked.propagation).toMatchObject({ complete: true, total_nodes: 0 });
    const replies = [poll(b, "snapshot?node=n&"), poll(b, "delta?since=0&"), b.call(null, "GET /readyz")];
    expect((await Promise.all(replies)).map(({ status }) => status)).toEqual([503, 503, 503]);
    const refused = await start("c", `postgres://postgres@${address.host}/postgres`).catch((error: unknown) => error);
    expect(refused).toMatchObject({ exitCode: 3, message: expect.stringContaining("is a standby") as string });

    address.target = portOf(primary.url);
    await until(async () => (await b.call(null, "GET /readyz")).status === 200);
    expect((await poll(b, "snapshot?node=n&")).body.keys).toEqual([]);
  });
});
