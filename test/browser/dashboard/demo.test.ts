// The demonstration: its content, and every page of the dashboard with it, in a light, a dark and a phone-sized window.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasBrowser, sharedBrowser } from "../../../harness/browser/browser.ts";
import { expectAccessible, guest, setLook, type Look } from "../../../harness/browser/pages.ts";
import { button, fillLogin } from "../../../harness/browser/suite.ts";
import { startLocalInstance, type LocalInstance } from "../../../harness/instances/local-instance.ts";
import { DemoClock } from "../../../src/server/demo/clock.ts";
import { DEMO_DAYS, seedDemo, type Demo } from "../../../src/server/demo/demo.ts";

const WINDOW = { width: 1280, height: 720 };
const LOOKS: Look[] = [
  { colorScheme: "light", viewport: WINDOW },
  { colorScheme: "dark", viewport: WINDOW },
  { colorScheme: "light", viewport: { width: 360, height: 740 } },
];
const PAGES = [
  "Home",
  "Keys",
  "Tenants",
  "Projects",
  "Plans",
  "Usage",
  "Fleet",
  "Leaks",
  "Audit",
  "Portal",
  "Developers",
  "Members",
  "Settings",
  "Instance",
];

describe("the demonstration", () => {
  let dir: string;
  let instance: LocalInstance;
  let demo: Demo;
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
  const read = async (path: string) => (await instance.call(demo.secret_key, `GET ${path}`)).body;

  it("has keys in every state, people, verifiers and a log that verifies", async () => {
    for (const state of ["active", "expiring", "expired", "idle", "disabled", "quarantined", "revoked"])
      expect((await read(`/v1/keys?state=${state}`)).data, state).not.toEqual([]);
    const { keys, projects, nodes } = await read("/v1/overview");
    expect({ quarantined: keys.quarantined, projects, nodes }).toEqual({
      quarantined: 1,
      projects: 3,
      nodes: { live: 3, current: 2 },
    });
    const roles = (await read("/v1/members")).data.map(({ role }: { role: string }) => role);
    expect(roles.toSorted()).toEqual(["admin", "member", "owner"]);
    expect(await read("/v1/audit_logs/chain")).toMatchObject({ verified: true });
    const [oldest] = (await read("/v1/audit_logs?limit=1")).data;
    const age = Date.now() - Date.parse(oldest.occurred_at);
    expect(Math.round(age / 86_400_000)).toBe(DEMO_DAYS);
  });

  it("uses no key before it was created or after it stopped working", async () => {
    type Key = Record<"created_at" | "expires_at" | "disabled_at" | "revoked_at" | "last_used_at", string | null>;
    const keys: Key[] = (await read("/v1/keys?include_revoked=true&limit=200")).data;
    const isUsed = (key: Key, by: string | null, sign: 1 | -1): boolean =>
      by !== null && key.last_used_at !== null && sign * (Date.parse(key.last_used_at) - Date.parse(by)) > 0;
    expect(keys.filter((key) => isUsed(key, key.created_at, -1))).toEqual([]);
    for (const end of ["expires_at", "disabled_at", "revoked_at"] as const) {
      expect(
        keys.filter((key) => isUsed(key, key[end], 1)),
        end,
      ).toEqual([]);
      expect(
        keys.some((key) => isUsed(key, key[end], -1)),
        end,
      ).toBe(true);
    }
  });

  describe.runIf(hasBrowser)("in a browser", () => {
    let browser: Browser;
    beforeAll(async () => {
      browser = await sharedBrowser();
    });

    it("fills every page, each accessible and within its window", async () => {
      await using g = await guest(browser);
      await g.open(`${instance.app.url}/#/login`);
      await fillLogin(g.page, demo.owner_email, demo.owner_password);
      await button(g.page, "Log in").click();
      await g.at("Home");
      // One look a page: the other tests see each page in more of its states.
      for (const [i, title] of PAGES.entries()) {
        await setLook(g.page, LOOKS[i % LOOKS.length]!);
        await g.page.goto(`${instance.app.url}/#/w/demo/live/${title.toLowerCase()}?limit=25`);
        await g.at(title);
        await g.page.locator(".skeleton, main [aria-busy=true]").first().waitFor({ state: "detached" });
        await expectAccessible(g.page);
      }
      await g.expectClean();
    });

    it("opens pages with 8 requests at most, tables without scrolling sideways, charts with names apart", async () => {
      await using g = await guest(browser, { viewport: { width: 660, height: 800 } });
      await g.open(`${instance.app.url}/#/login`);
      await fillLogin(g.page, demo.owner_email, demo.owner_password);
      await button(g.page, "Log in").click();
      await g.at("Home");
      // Every first step is done: the checklist and what it reads are not needed any more.
      await expect.poll(() => g.page.evaluate("JSON.stringify(localStorage)")).toContain("checklist");
      await g.page.goto(`${instance.app.url}/#/w/demo/live/members`);
      await g.page.locator(".table-scroll").first().waitFor(); // by then the requests of Home have been sent
      let asked = new Set<string>();
      const headings = new Set<number>();
      g.page.on("request", (request) => asked.add(request.url()));
      for (const title of [
        "Keys",
        "Tenants",
        "Projects",
        "Plans",
        "Fleet",
        "Leaks",
        "Audit",
        "Developers",
        "Members",
      ]) {
        await g.page.goto(`${instance.app.url}/#/w/demo/live/${title.toLowerCase()}`);
        await g.at(title);
        const table = g.page.locator(".table-scroll").first();
        await table.waitFor();
        expect(await table.evaluate((box) => box.scrollWidth - box.clientWidth), title).toBe(0);
        expect(asked.size, title).toBeLessThanOrEqual(8);
        if (title === "Leaks" || title === "Developers") {
          await g.page.setViewportSize({ width: 641, height: 800 }); // the narrowest without cards
          expect(await table.evaluate((box) => box.scrollWidth - box.clientWidth), title).toBe(0);
          await g.page.setViewportSize({ width: 660, height: 800 });
        }
        asked = new Set();
        headings.add(await g.page.locator("h1").evaluate((heading) => heading.getBoundingClientRect().top));
      }
      expect(headings.size).toBe(1); // with and without a button beside it
      // Loaded again, with all that belongs to the frame.
      const keys: { id: string; rotated_from: string | null }[] = (await read("/v1/keys?limit=200")).data;
      const rotated = keys.find(({ rotated_from }) => rotated_from !== null);
      for (const path of ["home", `keys/${rotated?.id}`]) {
        await g.page.goto("about:blank"); // ends the reads of the page before
        asked = new Set();
        await g.page.goto(`${instance.app.url}/#/w/demo/live/${path}`);
        await g.page.getByRole("heading", { name: /changes$/i }).waitFor();
        await g.page.locator("main [aria-busy=true]").first().waitFor({ state: "detached" });
        const calls = [...asked].filter((url) => /\/(v1|status)/.test(url));
        expect(calls.length, calls.join("\n")).toBeLessThanOrEqual(8);
        if (path !== "home") continue;
        const figures = g.page.locator(".figures > *");
        const tops = await figures.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().top));
        expect(tops.map((top) => tops.indexOf(top))).toEqual([0, 0, 0, 3, 3]); // three in a row, then two
      }
      await g.page.setViewportSize({ width: 660, height: 800 });
      await g.page.goto(`${instance.app.url}/#/w/demo/live/usage?by=tenant`);
      await g.page.getByRole("img", { name: /^[\d,]+ requests, [\d.]+% denied, last 24 hours$/ }).waitFor();
      await g.page.goto(`${instance.app.url}/#/w/demo/live/usage?range=7d`);
      await g.page.getByRole("img", { name: /last 7 days$/ }).waitFor();
      // Once the chart has taken the width of its window.
      const areApart = () =>
        g.page.locator("svg[role=img] > text").evaluateAll((texts) => {
          const boxes = texts.map((text) => text.getBoundingClientRect());
          return boxes.length > 1 && boxes.every(({ left }, i) => i === 0 || left > boxes[i - 1]!.right);
        });
      await expect.poll(areApart).toBe(true);
      await g.expectClean();
    });

    // Last: what it creates would be among the recent changes of Home.
    it("fits tables into every window, with long names, times on one line, and columns hidden by rank", async () => {
      const make = async (path: string, body: object) =>
        (await instance.call(demo.secret_key, `POST ${path}`, body)).body.id as string;
      const long = "W".repeat(100);
      const [project_id, tenant_id] = [
        await make("/v1/projects", { name: long, slug: "w".repeat(40) }),
        await make("/v1/tenants", { name: long, external_id: long }),
      ];
      const expires_at = new Date(Date.now() + 3 * 86_400_000).toISOString();
      await make("/v1/keys", {
        project_id,
        tenant_id,
        env: "live",
        name: long,
        scopes: ["a:read", "b:read"],
        expires_at,
      });
      await using g = await guest(browser, { viewport: { width: 1280, height: 800 } });
      await g.open(`${instance.app.url}/#/login`);
      await fillLogin(g.page, demo.owner_email, demo.owner_password);
      await button(g.page, "Log in").click();
      await g.at("Home");
      for (const [path, caption, width, hidden] of [
        ["fleet", "Nodes", 1280, []],
        ["keys", "Keys", 1280, []],
        ["keys", "Keys", 1100, ["Scopes", "Created"]],
        ["keys?state=expiring", "Keys", 768, ["Project", "Scopes", "Created"]],
      ] as const) {
        await g.page.setViewportSize({ width, height: 800 });
        await g.page.goto(`${instance.app.url}/#/w/demo/live/${path}`);
        const table = g.page.getByRole("table", { name: caption });
        await table.waitFor();
        if (caption === "Keys") await table.getByText(long).first().waitFor();
        const where = `${path} at ${width}`;
        expect(await table.locator("thead th:not(:visible)").allTextContents(), where).toEqual(hidden);
        const box = g.page.locator(".table-scroll").first();
        expect(await box.evaluate((scroll) => scroll.scrollWidth - scroll.clientWidth), where).toBe(0);
        const lines = await table
          .locator("time:visible")
          .evaluateAll((all) => all.map((time) => time.getClientRects().length));
        expect(new Set(lines), where).toEqual(new Set([1]));
      }
      // The column that the list is for is beside the state; what is hidden is below the name.
      const shown = await g.page.locator("thead th:visible").allTextContents();
      expect(shown).toEqual(["", "Key", "Tenant", "State", "Expires", "Last used", "Actions"]);
      await g.page
        .getByRole("rowheader", { name: /Project (Orders|Billing|Maps) API$/ })
        .first()
        .waitFor();
      // A whole address, where few columns leave room for it.
      await g.page.goto(`${instance.app.url}/#/w/demo/live/members`);
      const address = g.page.getByRole("rowheader").locator(".user-text", { hasText: "member@" });
      expect(await address.evaluate((text) => text.getBoundingClientRect().height)).toBeLessThan(24);
      // The card of a phone breaks a long scope.
      await g.page.setViewportSize({ width: 320, height: 800 });
      await g.page.goto(`${instance.app.url}/#/w/demo/live/keys`);
      const cards = g.page.locator(".table-scroll").first();
      await cards
        .locator(".chip")
        .first()
        .evaluate((chip) => (chip.textContent = "a:a-scope-with-a-long-name"));
      expect(await cards.evaluate((scroll) => scroll.scrollWidth - scroll.clientWidth)).toBe(0);
      // On A4, upright, every column is on the paper.
      await g.page.emulateMedia({ media: "print" });
      await g.page.setViewportSize({ width: 720, height: 1000 });
      for (const path of ["keys", "tenants", "projects", "fleet", "audit"]) {
        await g.page.goto(`${instance.app.url}/#/w/demo/live/${path}`);
        await g.at(new RegExp(`^${path}$`, "i"));
        const table = g.page.getByRole("table").first();
        await (path === "fleet" ? table : table.getByText(long).first()).waitFor();
        const end = await table.evaluate((all) => all.getBoundingClientRect().right);
        expect(end, path).toBeLessThanOrEqual(720);
      }
      await g.page.emulateMedia({ media: "screen" });
      // Only the beginning of a name is found, so the page says what a search finds.
      await g.page.goto(`${instance.app.url}/#/w/demo/live/keys?q=ind`);
      await g.page.getByText(/finds the beginnings of words/).waitFor();
      await g.expectClean();
    });
  });
});
