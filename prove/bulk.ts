// Bulk changes of very many keys by `keyrack key bulk` while the command or the server is killed, and nodes poll: each
// key is changed once, in whole calls with their audit rows, each new key is in the file once, and every node follows.
import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openRaw, type Raw } from "../harness/databases/raw-sql.ts";
import { send } from "../harness/processes/send.ts";
import { must, type World } from "../harness/instances/world.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { portOf, stableAddress, type StableAddress } from "../harness/processes/stable-address.ts";
import { seeded, type Random } from "../harness/random.ts";
import { until } from "../harness/waiting.ts";
import { parseCsv } from "../src/cli/commands/csv-import/csv.ts";
import { UNCONFIRMED } from "../src/cli/commands/key/bulk-run.ts";
import { createKeyrack } from "../src/sdk/index.ts";
import { BulkCommand, type CommandRun } from "./bulk-command.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { ENV, worldOn } from "./crash.ts";

const NODES = 4;
const MINTED_AT_ONCE = 50;
/** Between a call's end and the kill: in the middle of the next one. */
const KILL_AFTER_MAX_MS = 40;

/** `does` finds the keys that are changed; every node judges them as `verdict` says. */
const ACTIONS = {
  disable: { audit: "api_key.disabled", does: "disabled_at is not null", verdict: "key_disabled" },
  enable: { audit: "api_key.enabled", does: "disabled_at is null", verdict: "ok" },
  rotate: { audit: "api_key.rotated", does: "rotated_from is not null", verdict: "ok" },
  revoke: { audit: "api_key.revoked", does: "revoked_at is not null", verdict: "invalid_key" },
} as const;
type Action = keyof typeof ACTIONS;

type Node = ReturnType<typeof createKeyrack>;
/** `actions` in an order in which each changes every key. */
type Size = { keys: number; limit: number; killsPerAction: number; actions: readonly Action[] };
type Minted = { id: string; key: string };

/** The server, at an address that stays while it is killed and started again. */
class Target {
  readonly address: StableAddress;
  readonly #args: string[];
  #server: Running | undefined;

  private constructor(args: string[], address: StableAddress) {
    this.#args = args;
    this.address = address;
  }

  static async open(args: string[]): Promise<Target> {
    const target = new Target(args, await stableAddress());
    await target.start();
    return target;
  }

  async start(): Promise<Running> {
    this.#server = await startServer(this.#args, ENV);
    this.address.target = portOf(this.#server.ready.url);
    return this.#server;
  }

  async restart(): Promise<void> {
    this.address.target = null;
    await this.#server?.end("SIGKILL");
    await this.start();
  }

  async world(slug: string): Promise<World> {
    if (!this.#server) throw new Error("the server does not run");
    const world = await worldOn(this.#server, slug);
    return { ...world, call: (...args) => send(this.address.url, ...args) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server?.end("SIGTERM");
    await this.address[Symbol.asyncDispose]();
  }
}

const verdictOf = (node: Node, key: string): string => {
  const verdict = node.verify(key);
  return verdict.ok ? "ok" : verdict.code;
};

class Round {
  readonly #target: Target;
  readonly #world: World;
  readonly #nodes: readonly Node[];
  readonly #raw: Raw;
  readonly #dir: string;
  readonly #size: Size;
  readonly #random: Random;
  readonly #failed: (what: string) => void;
  readonly #tally: Tally;
  /** Every key of the tenant, by id. */
  readonly #texts = new Map<string, string>();
  #tenant = "";

  constructor(
    on: { target: Target; world: World; nodes: readonly Node[]; raw: Raw },
    dir: string,
    size: Size,
    seed: number,
    tally: Tally,
  ) {
    this.#target = on.target;
    this.#world = on.world;
    this.#nodes = on.nodes;
    this.#raw = on.raw;
    this.#dir = dir;
    this.#size = size;
    this.#random = seeded(seed);
    this.#failed = (what) => tally.failed(seed, what);
    this.#tally = tally;
  }

  async run(seed: number): Promise<void> {
    const { call, key } = this.#world;
    this.#tenant = (await must(call(key, "POST /v1/tenants", { external_id: `t${seed}` }))).id;
    await this.#mint();
    await this.#followed("minting", "ok");
    for (const action of this.#size.actions) await this.#change(action);
  }

  async #mint(): Promise<void> {
    const { call, key, project_id } = this.#world;
    const mint = async (): Promise<void> => {
      const body = { project_id, tenant_id: this.#tenant, env: "live" };
      const minted: Minted = await must(call(key, "POST /v1/keys", body));
      this.#texts.set(minted.id, minted.key);
    };
    const left = (): number => this.#size.keys - this.#texts.size;
    while (left() > 0) await Promise.all(Array.from({ length: Math.min(MINTED_AT_ONCE, left()) }, mint));
  }

  async #change(action: Action): Promise<void> {
    const matched = [...this.#texts.keys()];
    const out = join(this.#dir, "keys.csv");
    const receipt = await this.#runKilled(action, matched.length, action === "rotate" ? ["--out", out] : []);
    await this.#assertWhole(action, matched.length, true);
    if (action === "rotate") await this.#readSuccessors(out, matched);
    if (receipt === "complete") {
      // Nothing is waited for: the receipt said that every node has it.
      const late = this.#behind(ACTIONS[action].verdict);
      if (late > 0) this.#failed(`${action}: ${late} verdicts are old after a complete receipt`);
    }
    this.#tally.count(`receipts, ${receipt}`);
    await this.#followed(action, ACTIONS[action].verdict);
    this.#tally.count("keys changed", matched.length);
  }

  /** Runs the command until it ends by itself, with kills in between. Returns what its receipt said. */
  async #runKilled(action: Action, total: number, flags: string[]): Promise<"complete" | "incomplete" | "none"> {
    const { key } = this.#world;
    const { limit, killsPerAction } = this.#size;
    const command = new BulkCommand(this.#dir, { url: this.#target.address.url, key });
    const first = ["--tenant-id", this.#tenant, "--limit", String(limit), "--yes", ...flags];
    const callsPerKill = Math.ceil(total / limit / (killsPerAction + 1));
    for (let kills = killsPerAction; ; kills--) {
      const progress = command.progress();
      if (!progress && (await this.#assertWhole(action, total)) === total) return "none"; // killed after its last call
      const args = ["key", "bulk", action, ...(progress ? ["--resume", progress.file] : first), "--wait", "--json"];
      const afterCalls = this.#random.int(0, callsPerKill);
      const interrupt = { afterCalls, by: (kill: () => void) => this.#kill(kill) };
      const ran = await command.run(args, kills > 0 ? interrupt : undefined);
      await this.#assertWhole(action, total);
      if (ran.code === 0) return "complete";
      if (ran.code === 1) return this.#incomplete(ran);
      if (ran.code !== null && ran.code !== 3) throw new Error(`${action} ended with ${ran.code}: ${ran.stderr}`);
      if (kills <= 0) throw new Error(`${action} ended although nothing was killed: ${ran.stderr}`);
    }
  }

  #incomplete({ stderr }: CommandRun): "incomplete" {
    if (!stderr.includes(UNCONFIRMED)) throw new Error(stderr);
    return "incomplete";
  }

  async #kill(killCommand: () => void): Promise<void> {
    await sleep(this.#random.int(0, KILL_AFTER_MAX_MS));
    if (this.#random.int(0, 1) === 0) {
      killCommand();
      this.#tally.count("kills of the command");
    } else {
      await this.#target.restart();
      this.#tally.count("kills of the server");
    }
  }

  /** Calls are whole, each key is changed once and has its audit row. Returns how many keys are changed. */
  async #assertWhole(action: Action, total: number, isDone = false): Promise<number> {
    const { audit, does } = ACTIONS[action];
    const [found] = await this.#raw.all(
      `select written, audited, changed from
        (select count(*) as written, count(distinct target_id) as audited from audit_log
          where workspace_id = $1 and action = $2 and payload like '%"bulk_id"%'
          and target_id in (select id from api_keys where tenant_id = $3)) as log,
        (select count(*) as changed from api_keys where tenant_id = $4 and ${does}) as keys`,
      [this.#world.workspace_id, audit, this.#tenant, this.#tenant],
    );
    const [changed, audited, written] = [Number(found?.changed), Number(found?.audited), Number(found?.written)];
    if (changed !== audited || audited !== written)
      this.#failed(`${action}: ${changed} keys changed, ${written} audit rows of ${audited} keys`);
    if (changed % this.#size.limit !== 0 && changed !== total) this.#failed(`${action}: ${changed} is half a call`);
    if (isDone && changed !== total) this.#failed(`${action}: ${changed} of ${total} keys changed`);
    return changed;
  }

  /** Each key has one successor, whose text is in the file once. */
  async #readSuccessors(file: string, matched: readonly string[]): Promise<void> {
    const [, ...lines] = parseCsv(readFileSync(file, "utf8"));
    const stored = await this.#raw.all(
      "select id, rotated_from from api_keys where tenant_id = $1 and rotated_from is not null",
      [this.#tenant],
    );
    const successors = new Map(stored.map(({ id, rotated_from }) => [String(rotated_from), String(id)]));
    if (lines.length !== matched.length || stored.length !== matched.length || successors.size !== matched.length)
      this.#failed(`${stored.length} successors and ${lines.length} keys in the file of ${matched.length} keys`);
    for (const [id = "", successor_id = "", key = ""] of lines) {
      if (successors.get(id) !== successor_id) this.#failed(`the file has ${successor_id} as successor of ${id}`);
      this.#texts.set(successor_id, key);
    }
  }

  /** How many verdicts of all nodes on all keys are others. */
  #behind(expected: string): number {
    let count = 0;
    for (const node of this.#nodes)
      for (const key of this.#texts.values()) if (verdictOf(node, key) !== expected) count++;
    return count;
  }

  async #followed(what: string, expected: string): Promise<void> {
    const keys = [...this.#texts.values()];
    const follows = (node: Node): boolean => keys.every((key) => verdictOf(node, key) === expected);
    await until(() => this.#nodes.every(follows)).catch(() =>
      this.#failed(`after ${what} ${this.#behind(expected)} verdicts are not ${expected}`),
    );
  }
}

export function bulkCampaign(size: Size): Campaign {
  return {
    name: "bulk",
    promise: "P2, P3, P6",
    claim: "bulk changes survive kills of command and server: each key once, in whole calls, and every node follows.",
    rounds: 5,
    round: `${size.actions.join(", ")} of ${size.keys.toLocaleString("en-US")} keys`,
    backends: ["sqlite", "postgres"],
    async run(options, tally) {
      const { scratch } = options;
      await using target = await Target.open(scratch.args);
      const world = await target.world("bulk");
      const { key: secretKey, project_id: projectId } = world;
      const nodes = Array.from({ length: NODES }, (_, i) =>
        createKeyrack({ url: target.address.url, secretKey, projectId, nodeId: `node-${i}`, log: () => {} }),
      );
      const raw = await openRaw(scratch.target);
      try {
        await Promise.all(nodes.map((node) => node.ready()));
        for (const seed of rounds(options, tally)) {
          const dir = mkdtempSync(join(scratch.dir, "round-"));
          await new Round({ target, world, nodes, raw }, dir, size, seed, tally).run(seed);
          options.print(`seed ${seed}: ${JSON.stringify(tally.figures)}`);
        }
      } finally {
        await Promise.all(nodes.map((node) => node.close()));
        await raw.close();
      }
    },
  };
}

export const bulk = bulkCampaign({
  keys: 10_000,
  limit: 200,
  killsPerAction: 6,
  actions: ["disable", "enable", "rotate", "revoke"],
});
