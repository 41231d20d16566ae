// What the start says about a PostgreSQL that it cannot use: one sentence with what to do, and the exit code.
import { describe, expect, it, vi } from "vitest";
import { backends, freshDatabase } from "../../harness/databases/backends.ts";
import { openStore } from "../../src/store/database.ts";
import { toStartRefused } from "../../src/server/start-refused.ts";

const EVENTS = { now: () => 1, fatal: () => {} };

describe("the start on PostgreSQL", () => {
  for (const [what, code, message, exitCode, advice] of [
    ["a pooler that refuses settings", "08P01", "unsupported startup parameter: options", 2, "Use that of PostgreSQL"],
    ["a pooler that shares sessions", "42P05", 'prepared statement "k1" already exists', 2, "Use that of PostgreSQL"],
    [
      "a pooler whose server is away",
      "08P01",
      "server login has been failing, try again later",
      3,
      "cannot be reached",
    ],
    ["a server that is gone", "ECONNREFUSED", "connect ECONNREFUSED 127.0.0.1:5432", 3, "cannot be reached"],
    ["a wrong password", "28P01", "password authentication failed", 3, "Check KEYRACK_DATABASE_URL."],
  ] as const) {
    it(`says what to do about ${what}, and exits with ${exitCode}`, () => {
      const refused = toStartRefused(Object.assign(new Error(message), { code }), "/data");
      expect(refused).toMatchObject({ exitCode, message: expect.stringContaining(advice) as string });
      expect((refused as Error).message).toContain(message);
    });
  }

  for (const [what, change, exitCode, advice] of [
    ["does not exist", { pathname: "/keyrack_none" }, 3, "Check KEYRACK_DATABASE_URL."],
    ["has no TLS", { search: "?sslmode=require" }, 3, "use sslmode=disable in KEYRACK_DATABASE_URL."],
    ["needs a missing file", { search: "?sslrootcert=/nonexistent" }, 2, "'/nonexistent'"],
    ["is read-only", { search: "?options=-c%20default_transaction_read_only=on" }, 3, "Turn that off"],
  ] as const) {
    it.runIf(backends.includes("postgres"))(`says what to do about a database that ${what}`, async () => {
      const warned = vi.spyOn(process, "emitWarning");
      const { target, dispose } = await freshDatabase("postgres");
      if (target.kind !== "postgres") throw new Error("not PostgreSQL");
      const url = Object.assign(new URL(target.url), { host: "127.0.0.1", port: new URL(target.url).port, ...change });
      const opened = openStore({ ...target, url: url.href }, EVENTS);
      const refused = await opened.catch((error: unknown) => toStartRefused(error, "/data"));
      expect(refused).toMatchObject({ exitCode, message: expect.stringContaining(advice) as string });
      expect(warned).not.toHaveBeenCalled();
      warned.mockRestore();
      await dispose();
    });
  }
});
