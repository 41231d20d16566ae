// Builds missing indexes while the server runs, on a connection of its own: a build takes minutes on a large table.
import { fail } from "../../kernel/errors.ts";
import { buildIndexes } from "../schema/indexes.ts";
import { loadMigrations } from "../schema/migrate.ts";
import { dropConnection, withPostgres } from "./client.ts";

export async function buildMissingIndexes(url: string, signal: AbortSignal): Promise<string[]> {
  return withPostgres(url, async (client) => {
    const drop = (): void => dropConnection(client);
    signal.addEventListener("abort", drop);
    const session = {
      all: async <R>(sql: string) => (await client.query(sql)).rows as R[],
      exec: (sql: string) => client.query(sql),
    };
    try {
      return await buildIndexes(session, loadMigrations("postgres"));
    } catch (error) {
      throw signal.aborted ? fail("stopping") : error;
    } finally {
      signal.removeEventListener("abort", drop);
    }
  });
}
