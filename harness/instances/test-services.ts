// Services without HTTP on a fresh database, with a manual clock: for tests of the domain.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { openTestServices, testClock, type Flags, type TestServices } from "./services.ts";
import { readyDatabase, type Backend } from "../databases/backends.ts";

export { asOwner, keyActor, START, testClock, vendorOf, type TestServices, type TestClock } from "./services.ts";

type Options = { flags?: Flags };

/** Disposed by `await using`: closes the store, then removes the database and the data dir. */
export async function testServices(backend: Backend, { flags = {} }: Options = {}): Promise<TestServices> {
  const database = await readyDatabase(backend);
  const data_dir = mkdtempSync(join(tmpdir(), "keyrack-test-data-"));
  const fixture = await openTestServices(database.target, { data_dir, ...flags }, testClock());
  const close = fixture[Symbol.asyncDispose].bind(fixture);
  return Object.assign(fixture, {
    async [Symbol.asyncDispose]() {
      await close();
      await database.dispose();
      rmSync(data_dir, { recursive: true, force: true });
    },
  });
}

/** Services shared by the tests of a `describe`, each with its own workspace. */
export function sharedServices(backend: Backend): () => TestServices {
  let fixture: TestServices | undefined;
  beforeAll(async () => {
    fixture = await testServices(backend);
  });
  afterAll(() => fixture?.[Symbol.asyncDispose]());
  return () => fixture as TestServices;
}
