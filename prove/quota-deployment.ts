// What the campaign on quotas runs on: one process on SQLite, or two that share a PostgreSQL database, in some rounds
// with a Redis. Processes are killed, Redis loses everything, and a backup is restored.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { startRedis, type OwnRedis } from "../harness/databases/redis.ts";
import type { Scratch } from "../harness/databases/scratch.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { portOf, stableAddress, type StableAddress } from "../harness/processes/stable-address.ts";
import type { Random } from "../harness/random.ts";
import type { CreatedBackup } from "../src/backup/create.ts";
import type { Restored } from "../src/backup/restore.ts";
import { createLog } from "../src/platform/log.ts";
import { restoreOffline } from "../src/server/offline.ts";
import { callInstance } from "../src/server/operator-socket/client.ts";
import type { DatabaseTarget } from "../src/store/target.ts";
import { settingsFor } from "./backup.ts";
import { ENV } from "./crash.ts";

const LOSS_MAX_MS = 200;

export class QuotaDeployment {
  /** A process that is started again replaces the one before. */
  readonly servers: Running[] = [];
  readonly target: DatabaseTarget;
  readonly #folders: readonly string[];
  readonly #addresses: readonly StableAddress[];
  readonly #redis: OwnRedis | null;
  #usesRedis = false;

  private constructor(
    target: DatabaseTarget,
    folders: readonly string[],
    addresses: readonly StableAddress[],
    redis: OwnRedis | null,
  ) {
    this.target = target;
    this.#folders = folders;
    this.#addresses = addresses;
    this.#redis = redis;
  }

  /** Each process has a data directory of its own; the master key is in the first. No process runs yet. */
  static async open({ dir, target }: Scratch): Promise<QuotaDeployment> {
    const folders = target.kind === "postgres" ? ["a", "b"].map((name) => join(dir, name)) : [dir];
    for (const folder of folders) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const addresses = await Promise.all(folders.map(() => stableAddress()));
    return new QuotaDeployment(target, folders, addresses, await startRedis());
  }

  get hasRedis(): boolean {
    return this.#redis !== null;
  }

  /** Where the processes listen, also after they were started again. */
  get urls(): string[] {
    return this.#addresses.map(({ url }) => url);
  }

  async #start(which: number): Promise<void> {
    const { target } = this;
    const isShared = target.kind === "postgres";
    const args = ["--data-dir", this.#folders[which]!, ...(isShared ? ["--database-url", target.url] : [])];
    const server = await startServer(args, {
      ...ENV,
      KEYRACK_BACKUP_EVERY: "off",
      ...(isShared && { KEYRACK_PUBLIC_URL: "https://keys.example.com" }),
      ...(which > 0 && { KEYRACK_MASTER_KEY_FILE: join(this.#folders[0]!, "master.key") }),
      ...(this.#usesRedis && this.#redis && { KEYRACK_REDIS_URL: this.#redis.url }),
    });
    this.servers[which] = server;
    this.#addresses[which]!.target = portOf(server.ready.url);
  }

  /** One after the other: the first makes the master key. */
  async startAll(): Promise<void> {
    for (const which of this.#folders.keys()) await this.#start(which);
  }

  async stopAll(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.end("SIGTERM")));
  }

  /** Starts the processes, or starts them again, if they do not run with Redis, or without it, already. */
  async use(redis: boolean): Promise<void> {
    if (this.servers.length > 0 && redis === this.#usesRedis) return;
    this.#usesRedis = redis;
    await this.stopAll();
    await this.startAll();
  }

  async kill(which: number): Promise<void> {
    await this.servers[which]!.end("SIGKILL");
    await this.#start(which);
  }

  /** Redis loses everything, ends, and is back a little later. */
  async loseRedis(random: Random): Promise<void> {
    const redis = this.#redis!;
    const client = new Redis(redis.url);
    await client.flushall();
    client.disconnect();
    await sleep(random.int(0, LOSS_MAX_MS));
    await redis.kill();
    await sleep(random.int(0, LOSS_MAX_MS));
    await redis.start();
  }

  /** Returns its folder. */
  async backUp(): Promise<string> {
    const reply = await callInstance(this.#folders[0]!, "backup.create", {});
    if (!reply) throw new Error("the server's operator socket is not there");
    return (reply.value as CreatedBackup).folder;
  }

  /** While no process runs. */
  restore(folder: string): Promise<Restored> {
    const { target } = this;
    const settings = settingsFor(this.#folders[0]!, target.kind === "postgres" ? { database_url: target.url } : {});
    const log = createLog({ level: "error" });
    return restoreOffline({ settings, log, backup: folder, force: true, newMasterKey: false, onProgress: () => {} });
  }

  async close(): Promise<void> {
    await this.stopAll();
    await Promise.all(this.#addresses.map((address) => address[Symbol.asyncDispose]()));
    await this.#redis?.stop();
  }
}
