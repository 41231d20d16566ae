import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// The store's worker threads run as they are, without the bundler: without a cache their types are stripped and their
// code is compiled again for every database a test opens. Forks read this when they start.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL("node_modules/.cache/keyrack-test", import.meta.url));

// Files run in parallel processes; each test file makes its own databases, so they never meet.
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    pool: "forks",
    maxWorkers: 3, // two cores, and some files mostly wait
    testTimeout: 30_000,
    hookTimeout: 60_000,
    globalSetup: ["test/support/services.ts", "test/support/web.ts"],
  },
});
