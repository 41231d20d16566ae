// The order of test files: the slowest first, so that none runs alone at the end while other processes wait. The runner
// sorts by the times of earlier runs, and in a new checkout by size; but the slowest files are short, because they
// start processes, browsers and campaigns that live elsewhere.
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Beginnings of paths, slowest first. */
const SLOW = [
  "test/browser/",
  "test/prove/",
  "test/store/schema/",
  "test/cli/serve",
  "test/cli/upgrade",
  "test/backup/",
  "test/release/",
  "test/sdk/package",
  "test/sdk/examples",
  "test/sdk/idempotency/",
  "test/sdk/adapters",
  "test/gateway/",
  "test/cli/",
  "test/api/machine/faults",
  "test/api/access-matrix",
  "test/sdk/checkout",
  "test/examples/",
  "test/ratelimit/fallback",
  "test/http/login-flood",
  "test/store/leader",
];

function rankOf(file: string): number {
  const rank = SLOW.findIndex((start) => file.startsWith(start));
  return rank < 0 ? SLOW.length : rank;
}

export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { root } = this.ctx.config;
    // A file that runs alone stays in front: between others it would end a process that they share.
    // For the same reason the API on PostgreSQL, a project of its own, comes last.
    const rank = ({ moduleId, project }: TestSpecification): number => {
      if (project.config.isolate) return -1;
      return project.name === "postgres" ? SLOW.length + 1 : rankOf(moduleId.slice(root.length + 1));
    };
    // oxlint-disable-next-line unicorn/no-array-sort -- not a method of an array
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => rank(a) - rank(b));
  }
}
