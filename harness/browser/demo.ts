// The content of `serve --demo`, with fewer keys, on an instance of its own.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { DemoClock } from "../../src/server/demo/clock.ts";
import { DEMO_DAYS, seedDemo } from "../../src/server/demo/demo.ts";
import { startLocalInstance, type LocalInstance } from "../instances/local-instance.ts";
import type { Reply } from "../processes/send.ts";
import { sharedBrowser, type VisitOptions } from "./browser.ts";
import { guest, type Guest } from "./pages.ts";
import { button, fillLogin } from "./suite.ts";

type DemoSuite = {
  readonly url: string;
  /** Calls a route with the secret key of the demonstration, and returns the body of the response. */
  call(route: string, body?: object): Promise<Reply["body"]>;
  /** Opens the dashboard and logs in as the owner. */
  logIn(options?: VisitOptions): Promise<Guest>;
};

/** Call it inside `describe`: it starts the instance before the tests and stops it afterwards. */
export function useDemo(): DemoSuite {
  let dir: string;
  let instance: LocalInstance;
  let demo: Awaited<ReturnType<typeof seedDemo>>;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), "keyrack-demo-"));
    const clock = new DemoClock(DEMO_DAYS);
    instance = await startLocalInstance({ target: { kind: "sqlite", file: join(dir, "keyrack.db") }, dir, clock });
    demo = await seedDemo(instance.app.services, clock, { keys: 120, tenants: 12 });
  });
  afterAll(async () => {
    await instance.app.stop();
    rmSync(dir, { recursive: true });
  });
  return {
    get url() {
      return instance.app.url;
    },
    call: async (route, body) => (await instance.call(demo.secret_key, route, body)).body,
    async logIn(options) {
      const g = await guest(await sharedBrowser(), options);
      await g.open(`${instance.app.url}/#/login`);
      await fillLogin(g.page, demo.owner_email, demo.owner_password);
      await button(g.page, "Log in").click();
      await g.at("Home");
      return g;
    },
  };
}
