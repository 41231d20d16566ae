import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
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
  setupFiles: ["harness/setup/file-cpu.ts"],
};

// Tests that run in their own process's memory and clean up after themselves share a process, because loading Keyrack
// takes about a second of CPU per file.
const SHARED = ["api", "client", "domain", "house", "http", "kernel", "platform", "ratelimit", "sdk"];
// Runs alone: it hides Node from the library under test.
const ISOLATED = ["test/sdk/runtime.test.ts"];
const shared = `test/@(${SHARED.join("|")})/**/*.test.ts`;
const others = `test/!(${SHARED.join("|")})/**/*.test.ts`;

// Files run in parallel processes; each test file creates its own databases.
export default defineConfig({
  test: {
    maxWorkers: 3, // two cores, and some files mostly wait
    globalSetup: ["harness/setup/servers.ts", "harness/setup/web-assets.ts", "harness/setup/program.ts"],
    reporters: ["default", new TimesReporter()],
    projects: [
      { test: { name: "shared", ...limits, isolate: false, include: [shared], exclude: ISOLATED } },
      { test: { name: "isolated", ...limits, include: [others, ...ISOLATED] } },
    ],
  },
});
