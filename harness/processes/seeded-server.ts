// A seeded server, and the CLI with a credential for it.
import { dirname, join } from "node:path";
import { seedInstance } from "../../src/server/seed.ts";
import { readyDatabase } from "../databases/backends.ts";
import { startLocalInstance } from "../instances/local-instance.ts";
import { mailedToken } from "../instances/world.ts";
import { keyrack, tempDir, type Ran } from "./cli.ts";
import { startServer } from "./server.ts";

export const PASSWORD = "a long enough pass phrase 17";
/** No server listens here. */
export const UNREACHABLE = "http://127.0.0.1:1";
/** A valid id that does not exist. */
export const UNKNOWN_ID = "01900000-0000-7000-8000-000000000000";

type Seed = Record<
  | "url"
  | "secret_key"
  | "verify_key"
  | "project_id"
  | "tenant_id"
  | "workspace_id"
  | "mail_dir"
  | "bootstrap_token"
  | "data_dir",
  string
>;
export type Created = { id: string; key: string; token: string; user_id: string };

export type SeededServer = AsyncDisposable & {
  seed: Seed;
  /** The working directory of commands. */
  dir: string;
  /** --data-dir and its value, for operator commands. */
  dataDir: string[];
  run(args: string[], env?: Record<string, string>, input?: string): Promise<Ran>;
  api(method: string, path: string, body?: unknown, bearer?: string | null): Promise<Created>;
  /** A new person with a verified address; returns a session token. */
  signUp(email: string): Promise<string>;
};

type Seeded = { seed: Seed; stop: () => Promise<unknown> };

/** In this process: to start one takes more CPU time than most files need. */
async function seedHere(): Promise<Seeded> {
  const { target, dispose } = await readyDatabase("sqlite");
  if (target.kind !== "sqlite") throw new Error("not SQLite");
  const dir = dirname(target.file);
  const umask = process.umask();
  const { app } = await startLocalInstance({ target, dir });
  const made = await seedInstance(app.services);
  process.umask(umask); // the instance tightened it, and every file of a command would be private
  const bootstrap_token = app.bootstrap.token as string;
  return {
    seed: { ...made, url: app.url, bootstrap_token, mail_dir: join(dir, "mail"), data_dir: dir },
    stop: async () => {
      await app.stop();
      await dispose();
    },
  };
}

/** The program under test is a binary. */
async function seedProcess(): Promise<Seeded> {
  const server = await startServer(["--ephemeral", "--seed"]);
  return { seed: server.ready as unknown as Seed, stop: () => server.end("SIGTERM") };
}

export async function startSeededServer(): Promise<SeededServer> {
  const temp = tempDir();
  const { seed, stop } = process.env.KEYRACK_TEST_BIN === undefined ? await seedHere() : await seedProcess();
  const env = {
    KEYRACK_URL: seed.url,
    KEYRACK_SECRET_KEY: seed.secret_key,
    XDG_CONFIG_HOME: join(temp.dir, "config"),
    NO_COLOR: "1",
    HOME: temp.dir,
  };
  const api: SeededServer["api"] = async (method, path, body, bearer = seed.secret_key) => {
    const response = await fetch(seed.url + path, {
      method,
      headers: {
        ...(bearer && { authorization: `Bearer ${bearer}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const parsed: unknown = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(parsed)}`);
    return parsed as Created;
  };
  return {
    seed,
    dir: temp.dir,
    dataDir: ["--data-dir", seed.data_dir],
    run: (args, more = {}, input = "") => keyrack(args, { env: { ...env, ...more }, cwd: temp.dir, input }),
    api,
    async signUp(email) {
      await api("POST", "/v1/auth/users", { email, password: PASSWORD }, null);
      const token = await mailedToken(seed.data_dir, email);
      await api("POST", "/v1/auth/email_verifications/consume", { token }, null);
      return (await api("POST", "/v1/auth/sessions", { email, password: PASSWORD }, null)).token;
    },
    async [Symbol.asyncDispose]() {
      await stop();
      temp[Symbol.dispose]();
    },
  };
}
