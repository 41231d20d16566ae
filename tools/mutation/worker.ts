// Runs tests under one mutant after another in one warm process. The parent (runner.ts) sends the orders and kills it
// when a mutant never returns. Files on disk are not changed: the mutant is applied while a module is loaded.
import { createVitest } from "vitest/node";
import { applyMutant, type Mutant } from "./mutants.ts";

export type Order = { mutant: Mutant | null; test: string };
export type Verdict = { killed: boolean };

const root = new URL("../..", import.meta.url).pathname;
// As in vitest.config.ts: code that is never mutated (the runner, the store's threads) is compiled once.
process.env.NODE_COMPILE_CACHE ??= `${root}node_modules/.cache/keyrack-test`;
let mutant: Mutant | null = null;
let errors = 0;

const vitest = await createVitest(
  {
    config: false,
    root,
    watch: false,
    include: ["test/**/*.test.ts"],
    pool: "forks",
    maxWorkers: 1,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    provide: { postgres: null },
    reporters: [{}],
    silent: true,
    bail: 1, // one failure is enough
    fsModuleCache: false, // or a mutant would be cached, and the original too
  },
  {
    plugins: [
      {
        name: "mutant",
        enforce: "pre",
        transform: (code: string, id: string) =>
          mutant && id === root + mutant.file ? applyMutant(code, mutant) : null,
      },
    ],
    server: { watch: null },
  },
);
await vitest.standalone();

async function run(order: Order): Promise<Verdict> {
  const touched = [mutant?.file, order.mutant?.file].filter((file) => file !== undefined);
  mutant = order.mutant;
  for (const file of touched) vitest.invalidateFile(root + file);
  const specifications = await vitest.globTestSpecifications([order.test]);
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
  // Both lists include earlier runs.
  const mine = testModules.filter(({ moduleId }) => moduleId === root + order.test);
  const killed = mine.some((module) => !module.ok()) || unhandledErrors.length > errors || mine.length !== 1;
  errors = unhandledErrors.length;
  return { killed };
}

process.on("message", (order: Order) => {
  void run(order).then((verdict) => process.send?.(verdict));
});
process.send?.("ready");
