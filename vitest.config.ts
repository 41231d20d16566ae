import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { SlowestFirst } from "./harness/setup/slowest-first.ts";
import { TimesReporter } from "./harness/setup/times-reporter.ts";
import { DEADLINE_MS, POLL_MS, TEST_DEADLINE_MS } from "./harness/waiting.ts";

const root = fileURLToPath(new URL(".", import.meta.url));

// The store's worker threads run without the bundler: without a cache their types are stripped and their code is
// compiled again for every database a test opens. Forks read this when they start.
process.env.NODE_COMPILE_CACHE ??= `${root}node_modules/.cache/keyrack-test`;

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

/**
 * `npm run test:long`, which `.ci/run` runs too: what is rare or slow. Each subject has its core and its main flow among
 * the other tests.
 */
const LONG = [
  "test/api/machine/faults.test.ts",
  "test/backup/{database-copy,restore-damaged,restore-returned,restore-test}.test.ts",
  "test/browser/*/*.test.ts",
  "test/cli/{checkout,ephemeral-ends,install-*,out-stdout,upgrade}.test.ts",
  "test/domain/policy/lost-connections.test.ts",
  "test/examples/{app-readmes,ci,embed-page,metering}.test.ts",
  "test/gateway/nginx.test.ts",
  "test/http/{idle-memory,login-flood,wide-rows}.test.ts",
  "test/prove/{backups,bulk,cascade,disk,disk-full,fleet,main,neighbours,processes,quota-faults,quotas,series,upgrade}.test.ts",
  "test/release/{command,deb,inventory,links,oci,readme,service,signed}.test.ts",
  "test/sdk/{bundler-types,checkout,examples,package,recipes}.test.ts",
  "test/server/metering.test.ts",
  "test/store/postgres/{standby,timeouts}.test.ts",
];

/** On SQLite in `npm test`, on PostgreSQL in `npm run test:long` (`runBackends` of harness/databases/backends.ts). */
const ON_POSTGRES = globSync("test/**/*.test.ts", { cwd: root }).filter((file) =>
  /\brunBackends\b/.test(readFileSync(root + file, "utf8")),
);

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
          provide: { onPostgres: true },
        },
      },
    ],
  },
});
