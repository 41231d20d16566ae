// Searches, lookups, the overview and audit filters of a large workspace: how long each takes, and how long it holds
// the event loop. That is measured in CPU time of a turn, so that it is right on a busy machine too.
import { Worker } from "node:worker_threads";
import { withLarge, type Large, type LargeWorkspace, type Size } from "./large.ts";
import { median } from "./report.ts";

const WARM_UP = 3;
const ROUNDS = 30;
/** Longer than the server keeps an overview. */
const KEPT_MS = 3_000;

type Sent = { ms: number; status: number; text: string };
export type Request = { name: string; path: string; body?: object; asTest?: true; uncached?: true };
/** `rows`: of a list. */
export type Times = { name: string; ms: number; turnMs: number; longestMs: number; rows: number };

/** The client has a thread of its own. */
const CLIENT = `
const { parentPort } = require("node:worker_threads");
parentPort.on("message", async ({ url, init }) => {
  const start = performance.now();
  const response = await fetch(url, init);
  const text = await response.text();
  parentPort.postMessage({ ms: performance.now() - start, status: response.status, text });
});`;

export function requestsOf({ key, key_id, tenant_ids, ctx }: LargeWorkspace): Request[] {
  const keys = (query: string): Request => ({ name: `keys?${query}`, path: `/v1/keys?${query}` });
  const audit = (query: string): Request => ({ name: `audit_logs?${query}`, path: `/v1/audit_logs?${query}` });
  const states = ["active", "expiring", "expired", "quarantined", "disabled", "revoked", "idle"];
  const sorts = ["created_at", "name", "expires_at", "last_used_at"];
  return [
    ...["service", "bil", "service+mobile+4711", "customer-7", "kr_live_a", "nonsense"].map((q) => keys(`q=${q}`)),
    { name: "keys?q=UUID", path: `/v1/keys?q=${key_id}` },
    ...states.map((state) => keys(`state=${state}`)),
    keys("scope=orders:read"),
    keys("unused_days=30"),
    ...sorts.map((sort) => keys(`sort=${sort}`)),
    { name: "tenants?q=customer", path: "/v1/tenants?q=customer" },
    { name: "keys/lookup", path: "/v1/keys/lookup", body: { key } },
    { name: "overview", path: "/v1/overview", uncached: true },
    audit("order=desc"),
    audit("order=desc&action=api_key.created"),
    audit("action=tenant.*"),
    { name: "audit_logs?target_id=…", path: `/v1/audit_logs?target_id=${tenant_ids[0]}` },
    { name: "audit_logs?actor_id=…", path: `/v1/audit_logs?order=desc&actor_id=${ctx.actor.id}` },
    audit("order=desc&actor_type=secret_key"),
    { name: "audit_logs?from=…", path: `/v1/audit_logs?from=${new Date(Date.now() - 60_000).toISOString()}` },
    { name: "audit_logs as a test key", path: "/v1/audit_logs?order=desc", asTest: true },
  ];
}

/**
 * CPU milliseconds of this thread in the longest turn of the event loop since the last call. Keeps the loop turning.
 */
export class Turns {
  #longest = 0;
  #last = process.threadCpuUsage();
  #next: NodeJS.Immediate = setImmediate(() => this.#turn());

  #turn(): void {
    const { user, system } = process.threadCpuUsage(this.#last);
    this.#longest = Math.max(this.#longest, (user + system) / 1_000);
    this.#last = process.threadCpuUsage();
    this.#next = setImmediate(() => this.#turn());
  }

  longest(): number {
    const longest = this.#longest;
    this.#longest = 0;
    return longest;
  }

  stop(): void {
    clearImmediate(this.#next);
  }
}

/** Sends requests, one after the other. */
export function openClient({ app, ...world }: Large) {
  const thread = new Worker(CLIENT, { eval: true });
  return {
    async send({ name, path, body, asTest }: Request): Promise<Sent> {
      const headers = { authorization: `Bearer ${asTest ? world.testBearer : world.bearer}` };
      const post = { method: "POST", headers: { ...headers, "content-type": "application/json" } };
      const init = body ? { ...post, body: JSON.stringify(body) } : { headers };
      thread.postMessage({ url: app.url + path, init }, []);
      const sent = await new Promise<Sent>((resolve) => thread.once("message", resolve));
      if (sent.status !== 200) throw new Error(`${name}: ${sent.status} ${sent.text}`);
      return sent;
    },
    close: () => thread.terminate(),
  };
}

/** Times of each request with `many` and with `few` keys, in turns. */
export type Pair = { many: Times[]; few: Times[] };

type Client = ReturnType<typeof openClient>;

export function timePair(backend: string, sizes: { many: Size; few: Size }): Promise<Pair> {
  let ahead = 0;
  const expireCaches = (): void => void (ahead += KEPT_MS);
  const now = (): number => Date.now() + ahead;
  const options = { clock: { now, steady: now, setBack: () => {} } };
  return withLarge(
    backend,
    sizes.many,
    (many) => withLarge(backend, sizes.few, (few) => timeRequests(many, few, expireCaches), options),
    options,
  );
}

type Samples = { ms: number[]; turn: number[]; rows: number };

async function timeRequests(many: Large, few: Large, expireCaches: () => void): Promise<Pair> {
  const clients = [openClient(many), openClient(few)] as const;
  const turns = new Turns();
  const sample = async (client: Client, request: Request, into: Samples): Promise<void> => {
    if (request.uncached) expireCaches();
    turns.longest();
    const sent = await client.send(request);
    into.ms.push(sent.ms);
    into.turn.push(turns.longest());
    into.rows = (JSON.parse(sent.text) as { data?: unknown[] }).data?.length ?? 0;
  };
  const pair: Pair = { many: [], few: [] };
  const others = requestsOf(few);
  try {
    for (const [i, request] of requestsOf(many).entries()) {
      const of = { many: { ms: [], turn: [], rows: 0 }, few: { ms: [], turn: [], rows: 0 } };
      for (let round = 0; round < WARM_UP + ROUNDS; round++) {
        await sample(clients[0], request, of.many);
        await sample(clients[1], others[i]!, of.few);
      }
      pair.many.push(timesOf(request.name, of.many));
      pair.few.push(timesOf(request.name, of.few));
    }
  } finally {
    turns.stop();
    for (const client of clients) await client.close();
  }
  return pair;
}

function timesOf(name: string, samples: Samples): Times {
  const [ms, turn] = [samples.ms.slice(WARM_UP), samples.turn.slice(WARM_UP)];
  return { name, ms: median(ms), turnMs: median(turn), longestMs: Math.max(...turn), rows: samples.rows };
}
