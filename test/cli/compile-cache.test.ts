// A checkout compiles its sources once, for worker threads too: they take the cache from the environment only.
import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { CHECKOUT, cleanEnv } from "../../harness/processes/server.ts";

const AT_EXIT = "data:text/javascript,process.on('exit',()=>console.log(process.env.NODE_COMPILE_CACHE))";

it("gives worker threads the compile cache of the main thread, and leaves a chosen one as it is", () => {
  const args = ["--import", AT_EXIT, CHECKOUT.replace(/keyrack$/, "start.mjs"), "--version"];
  const run = (more: Record<string, string> = {}): string =>
    execFileSync(process.execPath, args, { encoding: "utf8", env: cleanEnv(more) });
  expect(run()).toMatch(/\/node_modules\/\.cache\/keyrack\n$/);
  expect(run({ NODE_COMPILE_CACHE: "/dev/null" })).toMatch(/\n\/dev\/null\n$/);
});
