import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { SlowestFirst } from "./harness/setup/slowest-first.ts";
import { TimesReporter } from "./harness/setup/times-reporter.ts";
import { DEADLINE_MS, POLL_MS, TEST_DEADLINE_MS } from "./harness/waiting.ts";

// The store's worker threads run without the bundler: without a cache their types are stripped and their code is
// compiled again for every database a test opens. Forks read this when they start.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL("node_modules/.cache/keyrack-test", import.meta.url));

const limits = {
  pool: "forks" as const,
  testTimeout: TEST_DEADLINE_MS,
  hookTimeout: TEST_DEADLINE_MS,
  expect: { poll: { timeout: DEADLINE_MS, interval: POLL_MS } },
  restoreMocks: true,
  setupFiles: ["file-cpu", "leftovers", "large-values", "sync-deadlines"].map((name) => `harness/setup/${name}.ts`),
};

/** Runs in a process of its own: it hides Node from the library under test. */
const ISOLATED = ["test/sdk/runtime.test.ts"];

/** What a change waits for only in `.ci/run`: `npm run test:long`. A short version is among the other tests. */
const LONG = [
  "test/browser/*/*.test.ts",
  "test/cli/install-{https,interrupted,rollback}.test.ts",
  "test/examples/{app-readmes,embed-page}.test.ts",
  "test/http/wide-rows.test.ts",
  "test/prove/{bulk,cascade,disk-full,fleet,main,neighbours,processes,quota-faults,upgrade}.test.ts",
  "test/release/{command,deb,oci,readme,service,signed}.test.ts",
  "test/sdk/{bundler-types,checkout,examples}.test.ts",
];

/** What is above the domain, and in `npm test` on SQLite alone: on PostgreSQL in `npm run test:long` (apiBackends). */
const ON_POSTGRES = [
  "test/api/**/*.test.ts",
  "test/domain/mail/smtp.test.ts",
  "test/http/{metrics,workspace-header}.test.ts",
  "test/sdk/{earlier-releases,server-features}.test.ts",
  "test/sdk/telemetry/rejected-events.test.ts",
];

/** Tests of the API that choose their databases themselves, or need none: they would only run a second time. */
const API_ONCE = [
  "test/api/ended-elsewhere.test.ts",
  "test/api/machine/{fast-check,faults,idempotency,large-batch,locks}.test.ts",
  "test/api/public/{openapi,pages,portal}.test.ts",
  "test/api/vendor/{audit-search,fast-new-key,key-search,older-process,series,usage}.test.ts",
];

// Files run in parallel processes, many in each, because loading Keyrack takes about a second of CPU. Each test file
// creates its own databases and restores what it changes of Node itself.
export default defineConfig({
  test: {
    teardownTimeout: TEST_DEADLINE_MS,
    maxWorkers: 3, // two cores, and some files mostly wait
    // A sequencer of our own would take precedence over the flag.
    ...(!process.argv.some((flag) => flag.startsWith("--sequence.shuffle")) && {
      sequence: { sequencer: SlowestFirst },
    }),
    globalSetup: ["run-folder", "prepare"].map((name) => `harness/setup/${name}.ts`),
    reporters: ["default", new TimesReporter()],
    projects: [
      { test: { name: "isolated", ...limits, include: ISOLATED } },
      {
        test: {
          name: "shared",
          ...limits,
          isolate: false,
          include: ["test/**/*.test.ts"],
          exclude: [...ISOLATED, ...LONG],
        },
      },
      { test: { name: "long", ...limits, isolate: false, include: LONG } },
      {
        test: {
          name: "postgres",
          ...limits,
          isolate: false,
          include: ON_POSTGRES,
          exclude: API_ONCE,
          provide: { apiOnPostgres: true },
        },
      },
    ],
  },
});
