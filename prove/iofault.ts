// A disk that fails: the k-th write or sync of a request gets EIO or ENOSPC, once or from then on, for every route that
// changes anything. No request may be acknowledged and lost, none may be half done. A failed sync ends the process,
// because a second sync could report success for lost pages; a full disk refuses writes, and the process continues.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { hash } from "node:crypto";
import { openRaw, type Raw } from "../harness/databases/raw-sql.ts";
import { calls, scannerFlags, type Request, type Scene } from "./calls.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { callOf, worldOn } from "./crash.ts";
import { seeded, type Random } from "../harness/random.ts";
import type { Reply } from "../harness/processes/send.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import type { Scratch } from "../harness/databases/scratch.ts";
import { buildShim, FaultControl, NO_COMPILER, type Fault } from "./shim.ts";
import { makePerson, must } from "../harness/instances/world.ts";

/** A failed sync must end the process within this time. */
const GONE_WITHIN_MS = 5_000;
const COUNT_ONLY: Fault = { op: "write", k: 1_000_000, forever: false, errno: "EIO" };
/** Side effects that are not audited: times of last use, and tables without audit rows. */
const PASSING = ["last_used_at", "last_seen_at", "updated_at"];
const PASSING_OF_SESSIONS = ["expires_at", "active_workspace_id"];
const AUDITED = [
  "workspaces",
  "projects",
  "tenants",
  "api_keys",
  "secret_keys",
  "memberships",
  "workspace_invites",
  "users",
  "sessions",
];

/** The audited state and the length of the audit log: neither may change without the other. */
async function digest(raw: Raw): Promise<{ state: string; seq: number }> {
  const texts: string[] = [];
  for (const table of AUDITED) {
    const passing = table === "sessions" ? [...PASSING, ...PASSING_OF_SESSIONS] : PASSING;
    const rows = await raw.all(`select * from ${table}`);
    const serialized = rows.map((row) =>
      JSON.stringify(Object.entries(row).filter(([name]) => !passing.includes(name))),
    );
    texts.push(table, ...serialized.toSorted());
  }
  const [heads] = await raw.all("select sum(seq) as n from audit_heads");
  return { state: hash("sha256", texts.join("\n")), seq: Number(heads?.n ?? 0) };
}

class Bench {
  readonly scratch: Scratch;
  readonly control: FaultControl;
  readonly #env: Record<string, string>;
  server!: Running;
  scene!: Scene;
  /** Number of writes of a request without faults, by route. */
  readonly #writes = new Map<string, number>();

  constructor(scratch: Scratch, shim: string) {
    this.scratch = scratch;
    this.control = new FaultControl(join(scratch.dir, "faults"));
    this.#env = {
      LD_PRELOAD: shim,
      KEYRACK_SHIM_PREFIX: join(scratch.dir, "keyrack.db"),
      KEYRACK_SHIM_CONTROL: this.control.file,
      KEYRACK_THROTTLE: "off",
      KEYRACK_SCANNER_KEYS_FILE: scannerFlags(scratch.dir).scanner_keys_file,
    };
  }

  async start(): Promise<void> {
    this.server = await startServer(this.scratch.args, this.#env);
  }

  async setUp(): Promise<void> {
    await this.start();
    const bootstrap = readFileSync(String(this.server.ready.bootstrap_token_file), "utf8").trim();
    const world = { ...(await worldOn(this.server, "iofault")), call: callOf(() => this.server) };
    const owner = await makePerson(world.call, this.scratch.dir, "owner@example.com");
    const { token } = await must(world.call(world.key, "POST /v1/invites", { email: owner.email, role: "owner" }));
    await must(world.call(owner.session, "POST /v1/auth/invites/accept", { token }));
    let names = 0;
    this.scene = { world, owner, bootstrap, dataDir: this.scratch.dir, fresh: () => `n-${names++}` };
  }

  ask({ bearer, route, body, options }: Request): Promise<Reply | null> {
    return this.scene.world.call(bearer, route, body, options).catch(() => null);
  }

  async writesOf(route: string): Promise<number> {
    const known = this.#writes.get(route);
    if (known !== undefined) return known;
    const request = await calls[route]?.(this.scene);
    this.control.arm(COUNT_ONLY);
    if (request) await this.ask(request);
    const { seen } = this.control.disarm();
    this.#writes.set(route, seen);
    return seen;
  }

  /** The exit code once the process has ended, or null if it still runs after a while. */
  async ended(withinMs: number): Promise<number | NodeJS.Signals | null> {
    const { child } = this.server;
    const signal = AbortSignal.timeout(withinMs);
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode ?? child.signalCode;
    return new Promise((resolve) => {
      child.once("exit", (code, by) => resolve(by ?? code ?? -1));
      signal.addEventListener("abort", () => resolve(null));
    });
  }
}

function pickFault(random: Random, writes: number): Fault {
  const forever = random.int(0, 1) === 1;
  if (random.int(0, 3) === 0) return { op: "sync", k: 1, forever, errno: "EIO" };
  return { op: "write", k: random.int(1, Math.max(1, writes)), forever, errno: random.pick(["EIO", "ENOSPC"]) };
}

/** Checks the reaction of the process to a fault that hit. */
async function judgeProcess(bench: Bench, fault: Fault, report: (what: string) => void, tally: Tally): Promise<void> {
  const started = performance.now();
  const must = fault.op === "sync" || fault.errno === "EIO";
  const ended = await bench.ended(must ? GONE_WITHIN_MS : 0);
  if (ended === null && must) report("the process continues");
  if (ended !== null && ended !== 70) report(`the process ended with ${ended}: ${bench.server.stderr().slice(-300)}`);
  if (ended !== null && fault.errno === "ENOSPC") report("a full disk ended the process");
  if (ended !== null) tally.most("slowest end ms", performance.now() - started);
  if (ended === null && !must) {
    const read = await bench.ask({ bearer: bench.scene.world.key, route: "GET /v1/workspace" });
    if (read?.status !== 200) report(`with a full disk a read gets ${read?.status ?? "no response"}`);
  }
}

async function tryFault(bench: Bench, raw: Raw, route: string, seed: number, tally: Tally): Promise<void> {
  const fault = pickFault(seeded(seed), await bench.writesOf(route));
  const report = (what: string): void =>
    tally.failed(
      seed,
      `${route} with ${fault.op} ${fault.k} ${fault.errno}${fault.forever ? " for ever" : ""}: ${what}`,
    );
  const request = (await calls[route]?.(bench.scene)) as Request;
  const before = await digest(raw);
  bench.control.arm(fault);
  const reply = await bench.ask(request);
  const hit = bench.control.disarm().failed > 0;
  if (hit) {
    if (fault.forever) bench.control.arm({ ...fault, k: 1 });
    await judgeProcess(bench, fault, report, tally);
    bench.control.disarm();
  }
  if (reply && reply.status >= 400 && reply.status !== 503) report(`answered ${reply.status} ${reply.text}`);
  if ((await bench.ended(0)) !== null) {
    await bench.start();
    tally.count("restarts");
  }
  const after = await digest(raw);
  const done = reply !== null && reply.status < 300;
  if ((before.state === after.state) !== (before.seq === after.seq) && !done)
    report(
      `half done: the log moved from ${before.seq} to ${after.seq}, the state ${before.state === after.state ? "did not" : "did"}`,
    );
  tally.count(hit ? `${fault.op} ${fault.errno} hit` : "missed");
  tally.count(done ? "acknowledged" : reply ? `${reply.status} responses` : "cut off");
  const chain = await bench.ask({ bearer: bench.scene.world.key, route: "GET /v1/audit_logs/chain" });
  if (chain?.body.verified !== true) report(`the chain: ${chain?.text ?? "no answer"}`);
  const [check] = await raw.all("pragma integrity_check");
  if (check?.integrity_check !== "ok") report(`integrity_check: ${String(check?.integrity_check)}`);
  const next = await bench.ask((await calls["POST /v1/tenants"]?.(bench.scene)) as Request);
  if (next?.status !== 201) report(`the next write gets ${next?.status ?? "no response"}`);
}

export const iofault: Campaign = {
  name: "iofault",
  promise: "P1, P2",
  claim: "A failing or full disk fails the request, never a promise; a failed sync ends the process.",
  rounds: 1_000,
  round: "fault in one request, the routes in turn",
  backends: ["sqlite"],
  async run(options, tally) {
    const shim = buildShim(options.scratch.dir);
    if (shim === null) {
      tally.skipped = NO_COMPILER;
      return;
    }
    const bench = new Bench(options.scratch, shim);
    await bench.setUp();
    const raw = await openRaw(options.scratch.target);
    const routes = Object.keys(calls);
    try {
      for (const seed of rounds(options, tally)) {
        await tryFault(bench, raw, routes[seed % routes.length] as string, seed, tally);
        if (seed % 100 === 0) options.print(`seed ${seed}`);
      }
      tally.figures.routes = Math.min(routes.length, tally.rounds);
    } finally {
      await raw.close();
      await bench.server.end("SIGKILL");
    }
  },
};
