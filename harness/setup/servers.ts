// Finds or starts, once per run, the servers that tests need, and provides their addresses to the test files.
// Tests of a missing server are skipped with a warning; when KEYRACK_TEST_REQUIRE names it, the run fails.
import type { TestProject } from "vitest/node";
import { dropDatabase, newName } from "../databases/postgres-databases.ts";
import { findPostgres, type Found } from "../databases/postgres-server.ts";
import { DEADLINE_MS } from "../waiting.ts";

declare module "vitest" {
  export interface ProvidedContext {
    postgres: string | null;
    /** The name of the run's template database, created by the first test file that needs it (backends.ts). */
    template: string;
    /** Set by the project that runs tests on PostgreSQL again (backends.ts). */
    onPostgres?: true;
  }
}

const services = { postgres: findPostgres } as const satisfies Record<string, () => Promise<Found | null>>;

type ServiceName = keyof typeof services;

/** On a busy machine a new connection may take longer than a server in use would wait for it. */
function patient(url: string): string {
  const address = new URL(url);
  address.searchParams.set("connect_timeout", String(DEADLINE_MS / 1_000));
  return address.href;
}

export async function startServers(project: TestProject): Promise<() => Promise<void>> {
  const required = (process.env.KEYRACK_TEST_REQUIRE ?? "").split(/[\s,]+/).filter(Boolean);
  const started: Found[] = [];
  const stopAll = async (): Promise<void> => {
    for (const found of started.toReversed()) await found.stop();
  };
  for (const name of Object.keys(services) as ServiceName[]) {
    const found = await services[name]();
    if (found) started.push(found);
    else if (required.includes(name)) {
      await stopAll();
      throw new Error(`KEYRACK_TEST_REQUIRE names ${name}, and none was found or could be started`);
    } else console.error(`!!! SKIPPED: no ${name} was found or could be started; every test on ${name} is left out.`);
    project.provide(name, found && patient(found.url));
  }
  const { postgres } = project.getProvidedContext();
  if (postgres) process.env.KEYRACK_TEST_POSTGRES_URL = postgres; // for campaigns (harness/databases/scratch.ts)
  const template = newName();
  project.provide("template", template);
  return async () => {
    if (postgres) await dropDatabase(postgres, template);
    await stopAll();
  };
}
