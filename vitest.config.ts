import { defineConfig } from "vitest/config";

// Files run in parallel processes; each test file makes its own databases, so they never meet.
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    globalSetup: ["test/support/services.ts", "test/support/web.ts"],
  },
});
