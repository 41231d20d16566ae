// Writes the seconds and CPU seconds of the last run and of each of its files to dist/test-times.json. The CPU time of
// a file includes the processes that it started and ended, but not the shared servers; that of the run includes all.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Reporter, TestModule } from "vitest/node";
import { cpuSeconds } from "./cpu-time.ts";

type FileTime = { file: string; seconds: number; cpu_seconds: number; large_values?: string[] };
export type TestTimes = { seconds: number; cpu_seconds: number; tests: number; files: FileTime[] };

const dist = fileURLToPath(new URL("../../dist", import.meta.url));
const round = (seconds: number): number => Math.round(seconds * 100) / 100;

export class TimesReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const files = modules.map(timeOf).toSorted((a, b) => b.cpu_seconds - a.cpu_seconds);
    const tests = modules.reduce((sum, module) => sum + [...module.children.allTests()].length, 0);
    // Only at the end of this process have the test processes and the servers ended, so that their CPU time is known.
    process.once("exit", () => {
      const times: TestTimes = {
        seconds: round(performance.now() / 1000),
        cpu_seconds: round(cpuSeconds()),
        tests,
        files,
      };
      mkdirSync(dist, { recursive: true });
      writeFileSync(`${dist}/test-times.json`, `${JSON.stringify(times, null, 2)}\n`);
    });
  }
}

function timeOf(module: TestModule): FileTime {
  const { prepareDuration, environmentSetupDuration, setupDuration, collectDuration, duration } = module.diagnostic();
  const { cpuSeconds: used = 0, largeValues = [] } = module.meta();
  const ms = prepareDuration + environmentSetupDuration + setupDuration + collectDuration + duration;
  return {
    file: module.relativeModuleId,
    seconds: round(ms / 1000),
    cpu_seconds: round(used),
    ...(largeValues.length > 0 && { large_values: largeValues }),
  };
}
