// Runs before each test file and measures the CPU time that it takes, for times-reporter.ts. What a process uses
// between two files counts for the second one: starting the process, loading modules.
import { afterAll } from "vitest";
import { cpuSinceLastCall } from "./cpu-time.ts";

declare module "vitest" {
  export interface TaskMeta {
    cpuSeconds?: number;
  }
}

// oxlint-disable-next-line no-empty-pattern -- vitest demands a pattern for the first argument
afterAll(({}, file) => {
  file.meta.cpuSeconds = cpuSinceLastCall();
});
