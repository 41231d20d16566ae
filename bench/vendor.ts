// The vendor plane: durable mints over HTTP compared with h3's echo and better-auth's create, reads with h3's tiny GET,
// and the group commit on PostgreSQL with one transaction per request.
import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import Database from "better-sqlite3";
import { startServer, type Running } from "../harness/processes/server.ts";
import { withScratchDatabase } from "../harness/databases/scratch.ts";
import type { LoadOptions } from "./client.ts";
import { MINT } from "./mint.ts";
import { oneTransactionEach } from "./one-transaction.ts";
import { interleave, startPeer, type Row } from "./report.ts";
import type { RowName } from "./rows.ts";
import { inTurns, perSecond, type Pair, type Side } from "./turns.ts";

const H3_SERVER = new URL("./servers/h3.ts", import.meta.url).pathname;
const ROWS_SERVER = new URL("./servers/rows.ts", import.meta.url).pathname;
const ROUNDS = 3;

export type World = {
  url: string;
  pid: number;
  bearer: string;
  project_id: string;
  tenant_id: string;
  mintBody: string;
};

const BARE_MINT = JSON.stringify({ project_id: "x".repeat(36), tenant_id: "x".repeat(36), ...MINT });

export function worldOf(server: Running): World {
  const { url, pid } = server.ready;
  const { secret_key, project_id, tenant_id } = server.ready as unknown as Record<
    "secret_key" | "project_id" | "tenant_id",
    string
  >;
  const mintBody = JSON.stringify({ project_id, tenant_id, ...MINT });
  return { url, pid, bearer: secret_key, project_id, tenant_id, mintBody };
}

const json = (bearer: string) => ({ authorization: `Bearer ${bearer}`, "content-type": "application/json" });

export const mintLoad = ({ url, bearer, mintBody }: World): LoadOptions => ({
  url: `${url}/v1/keys`,
  method: "POST",
  headers: json(bearer),
  body: mintBody,
});

/** A new process per sample: two processes differ by up to a fifth for the same handler. */
export async function onKeyrack(args: string[], work: (world: World) => Promise<number>): Promise<number> {
  const server = await startServer(["--ephemeral", "--seed", ...args]);
  try {
    return await work(worldOf(server));
  } finally {
    await server.end("SIGTERM");
  }
}

type Ask = (world: World) => LoadOptions | Promise<LoadOptions>;

async function keyrackSide(ask: Ask, status: string, bin?: string): Promise<Side> {
  const server = await startServer(["--ephemeral", "--seed"], {}, bin);
  const options = await ask(worldOf(server));
  return { measure: (times) => perSecond({ ...options, ...times }, status), end: () => server.end("SIGTERM") };
}

async function peerSide(file: string, ask: (url: string) => LoadOptions, status: string): Promise<Side> {
  const server = await startPeer(file);
  const options = ask(server.url);
  return { measure: (times) => perSecond({ ...options, ...times }, status), end: () => server.end() };
}

export async function readLoad(world: World): Promise<LoadOptions> {
  const minted = await fetch(`${world.url}/v1/keys`, {
    method: "POST",
    headers: json(world.bearer),
    body: world.mintBody,
  });
  const { id } = (await minted.json()) as { id: string };
  return { url: `${world.url}/v1/keys/${id}`, headers: { authorization: `Bearer ${world.bearer}` } };
}

const readKey = async (world: World): Promise<number> => perSecond(await readLoad(world), "200");

/** better-auth's create on SQLite with WAL and synchronous=FULL, called in process, without HTTP. */
async function betterAuthCreate(): Promise<number> {
  const peers = createRequire(new URL("./peers/package.json", import.meta.url));
  const module = async (name: string) =>
    (await import(pathToFileURL(peers.resolve(name)).href)) as Record<string, never>;
  const { betterAuth } = (await module("better-auth")) as Record<string, (options: object) => BetterAuth>;
  const { apiKey } = (await module("@better-auth/api-key")) as Record<string, (options: object) => object>;
  const { getMigrations } = (await module("better-auth/db/migration")) as Record<
    string,
    (options: object) => Promise<{ runMigrations(): Promise<void> }>
  >;
  const dir = mkdtempSync(join(tmpdir(), "keyrack-bench-"));
  const db = new Database(join(dir, "peer.db"));
  db.pragma("journal_mode=WAL");
  db.pragma("synchronous=FULL");
  const options = {
    database: db,
    secret: "x".repeat(40),
    baseURL: "http://localhost",
    emailAndPassword: { enabled: true },
    logger: { disabled: true },
  };
  const auth = (betterAuth as NonNullable<typeof betterAuth>)({
    ...options,
    plugins: [apiKey?.({ rateLimit: { enabled: false } })],
  });
  await (await getMigrations?.(auth.options))?.runMigrations();
  const { user } = await auth.api.signUpEmail({ body: { email: "a@b.co", password: "password1234", name: "n" } });
  let made = 0;
  const create = async (until: number): Promise<void> => {
    while (performance.now() < until) {
      await auth.api.createApiKey({ body: { name: "x", userId: user.id } });
      made++;
    }
  };
  const start = performance.now();
  await Promise.all(Array.from({ length: 50 }, () => create(start + 1_500)));
  const rate = made / ((performance.now() - start) / 1_000);
  db.close();
  rmSync(dir, { recursive: true, force: true });
  return rate;
}

type BetterAuth = {
  options: object;
  api: {
    signUpEmail(input: object): Promise<{ user: { id: string } }>;
    createApiKey(input: object): Promise<unknown>;
  };
};

const echo = (url: string): LoadOptions => ({
  url: `${url}/echo`,
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ text: "x".repeat(290) }),
});

const onPostgres = (work: (world: World) => Promise<number>): Promise<number> =>
  withScratchDatabase("postgres", (url) => onKeyrack(["--database-url", String(url)], work));

/** The server of the previous release is not in the repository: KEYRACK_BENCH_PREVIOUS names its program. */
async function besidePrevious(): Promise<Row[]> {
  const bin = process.env.KEYRACK_BENCH_PREVIOUS;
  if (!bin)
    console.error("vendor/mint-previous, vendor/mint-terms: set KEYRACK_BENCH_PREVIOUS to the program of 0.1.0");
  if (!bin) return [];
  const measured = (more: object): Promise<Pair> => {
    const mint = (world: World): LoadOptions => {
      const { project_id, tenant_id } = world;
      return mintLoad({ ...world, mintBody: JSON.stringify({ project_id, tenant_id, env: "live", ...more }) });
    };
    return inTurns({ ours: () => keyrackSide(mint, "201"), peer: () => keyrackSide(mint, "201", bin) });
  };
  const terms = { name: "order export", scopes: ["orders:read", "orders:write"] };
  return [
    { name: "vendor/mint-previous", ...(await measured({})), target: ">= 0.87", unit: "/s" },
    { name: "vendor/mint-terms", ...(await measured(terms)), target: ">= 0.75", unit: "/s" },
  ];
}

export async function vendor(): Promise<Row[]> {
  const mint = () => keyrackSide(mintLoad, "201");
  const bareRows = (url: string): LoadOptions => ({ ...echo(url), body: BARE_MINT });
  const mints = await inTurns({ ours: mint, peer: () => peerSide(H3_SERVER, echo, "200") });
  const rows = await inTurns({ ours: mint, peer: () => peerSide(ROWS_SERVER, bareRows, "201") });
  const reads = await inTurns({
    ours: () => keyrackSide(readLoad, "200"),
    peer: () => peerSide(H3_SERVER, (url) => ({ url: `${url}/tiny/1` }), "200"),
  });
  const alone = await interleave(ROUNDS, {
    mint: () => onKeyrack([], (world) => perSecond(mintLoad(world), "201")),
    betterAuth: betterAuthCreate,
    oneEach: () => withScratchDatabase("postgres", (url) => oneTransactionEach(String(url), 50)),
    mintPostgres: () => onPostgres((world) => perSecond(mintLoad(world), "201")),
    readPostgres: () => onPostgres(readKey),
  });
  return [...rowsOf({ mints, rows, reads }, alone), ...(await besidePrevious())];
}

type Alone = Record<"mint" | "betterAuth" | "oneEach" | "mintPostgres" | "readPostgres", number>;

function rowsOf({ mints, rows, reads }: Record<"mints" | "rows" | "reads", Pair>, alone: Alone): Row[] {
  const pair = (name: RowName, measured: Pair, target: string): Row => ({ name, ...measured, target, unit: "/s" });
  const row = (name: RowName, ours: number, peer: number, target: string): Row =>
    pair(name, { ours, peer, ratio: ours / peer }, target);
  return [
    pair("vendor/mint", mints, ">= 0.4"),
    pair("vendor/mint-rows", rows, ">= 0.8"),
    row("vendor/mint-better-auth", alone.mint, alone.betterAuth, ""),
    pair("vendor/get-by-id", reads, ">= 0.6"),
    row("vendor/mint-postgres", alone.mintPostgres, alone.oneEach, ">= 6"),
    row("vendor/mint-postgres-echo", alone.mintPostgres, mints.peer, ">= 0.2"),
    row("vendor/get-by-id-postgres", alone.readPostgres, reads.peer, ">= 0.2"),
  ];
}
