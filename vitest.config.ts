import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// The store's worker threads run as they are, without the bundler: without a cache their types are stripped and their
// code is compiled again for every database a test opens. Forks read this when they start.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL("node_modules/.cache/keyrack-test", import.meta.url));

const limits = { pool: "forks", testTimeout: 30_000, hookTimeout: 60_000, restoreMocks: true } as const;

// What runs in the test's own process and leaves nothing behind there but its databases. Loading Keyrack anew took
// about a second of CPU a file; here a process loads it once and takes one file after the other.
const TOGETHER = ["api", "client", "domain", "house", "http", "kernel", "platform", "ratelimit", "sdk"];
// Hides Node from the library under test.
const ALONE = ["test/sdk/runtime.test.ts"];
const together = `test/@(${TOGETHER.join("|")})/**/*.test.ts`;
const others = `test/!(${TOGETHER.join("|")})/**/*.test.ts`;

// Files run in parallel processes; each test file makes its own databases, so they never meet.
export default defineConfig({
  test: {
    maxWorkers: 3, // two cores, and some files mostly wait
    globalSetup: ["harness/setup/servers.ts", "harness/setup/web-assets.ts"],
    projects: [
      { test: { name: "together", ...limits, isolate: false, include: [together], exclude: ALONE } },
      { test: { name: "alone", ...limits, include: [others, ...ALONE] } },
    ],
  },
});
