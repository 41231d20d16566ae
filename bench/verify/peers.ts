// The peers' key checks, called in process; null when bench/peers is not installed.
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import Database from "better-sqlite3";

type Module = Record<string, (...args: unknown[]) => unknown>;
type Auth = {
  options: object;
  api: Record<"signUpEmail" | "createApiKey" | "verifyApiKey", (input: object) => Promise<unknown>>;
};

const peers = createRequire(new URL("../peers/package.json", import.meta.url));

async function peer(name: string): Promise<Module | null> {
  try {
    return (await import(pathToFileURL(peers.resolve(name)).href)) as Module;
  } catch {
    return null;
  }
}

/** A peer with one key. `check` verifies it once. */
export type Peer = { check(): unknown; close(): void };

export async function prefixedApiKey(): Promise<Peer | null> {
  const module = await peer("prefixed-api-key");
  type Made = { token: string; longTokenHash: string };
  const made = (await module?.["generateAPIKey"]?.({ keyPrefix: "mycompany" })) as Made | undefined;
  const check = module?.["checkAPIKey"];
  if (!made || !check) return null;
  return { check: () => good(check(made.token, made.longTokenHash)), close: () => {} };
}

/** On SQLite with WAL+NORMAL, or in memory. Its rate limit is off: verify() counts nothing either. */
export async function betterAuth(kind: "wal-normal" | "memory"): Promise<Peer | null> {
  const [core, plugin] = [await peer("better-auth"), await peer("@better-auth/api-key")];
  const [migration, memory] = [await peer("better-auth/db/migration"), await peer("better-auth/adapters/memory")];
  if (!core || !plugin || !migration || !memory) return null;
  const dir = mkdtempSync(join(tmpdir(), "keyrack-bench-"));
  const db = new Database(join(dir, "peer.db"));
  db.pragma("journal_mode=WAL");
  db.pragma("synchronous=NORMAL");
  const tables = { user: [], session: [], account: [], verification: [], apikey: [] };
  const auth = core["betterAuth"]?.({
    database: kind === "memory" ? memory["memoryAdapter"]?.(tables) : db,
    secret: "x".repeat(40),
    baseURL: "http://localhost",
    emailAndPassword: { enabled: true },
    logger: { disabled: true },
    plugins: [plugin["apiKey"]?.({ rateLimit: { enabled: false } })],
  }) as Auth;
  if (kind !== "memory") await migrated(migration, auth);
  const person = { email: "a@b.co", password: "password1234", name: "n" };
  const { user } = (await auth.api.signUpEmail({ body: person })) as { user: { id: string } };
  const { key } = (await auth.api.createApiKey({ body: { name: "x", userId: user.id } })) as { key: string };
  return {
    check: async () => good(((await auth.api.verifyApiKey({ body: { key } })) as { valid: boolean }).valid),
    close: () => {
      db.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function good(valid: unknown): void {
  if (valid !== true) throw new Error("a peer refused its own key");
}

/** Not for the memory adapter: better-auth ends the process when asked to migrate it. */
async function migrated(migration: Module, auth: Auth): Promise<void> {
  const plan = (await migration["getMigrations"]?.(auth.options)) as { runMigrations(): Promise<void> } | undefined;
  await plan?.runMigrations();
}
