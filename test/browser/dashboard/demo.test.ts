// Tables and charts of the demonstration in windows of every width and on paper, and how much each page asks for.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { useDemo } from "../../../harness/browser/demo.ts";
import { button } from "../../../harness/browser/suite.ts";

describe.runIf(hasBrowser)("the demonstration in windows of every width", () => {
  const demo = useDemo();

  it("opens pages with 8 requests at most, tables without scrolling sideways, charts with names apart", async () => {
    await using g = await demo.logIn({ viewport: { width: 660, height: 800 } });
    // Every first step is done: the checklist and what it reads are not needed any more.
    await expect.poll(() => g.page.evaluate("JSON.stringify(localStorage)")).toContain("checklist");
    await g.page.goto(`${demo.url}/#/w/demo/live/members`);
    await g.page.locator(".table-scroll").first().waitFor(); // by then the requests of Home have been sent
    let asked = new Set<string>();
    const headings = new Set<number>();
    g.page.on("request", (request) => asked.add(request.url()));
    for (const title of ["Keys", "Tenants", "Projects", "Plans", "Fleet", "Leaks", "Audit", "Developers", "Members"]) {
      await g.page.goto(`${demo.url}/#/w/demo/live/${title.toLowerCase()}`);
      await g.at(title);
      const table = g.page.locator(".table-scroll").first();
      await table.waitFor();
      await expect.poll(() => table.evaluate((box) => box.scrollWidth - box.clientWidth), { message: title }).toBe(0);
      expect(asked.size, title).toBeLessThanOrEqual(8);
      if (title === "Developers") {
        await button(g.page, "Copy id of Orders API").waitFor();
        // The secret key that made everything was used to do so.
        const author = g.page.getByRole("row", { name: /^Vendor backend/ });
        await expect.poll(() => author.locator("[data-label='Last used']").innerText()).toMatch(/ago$/);
        expect(await author.getByText("Idle").count()).toBe(0);
      }
      if (title === "Leaks" || title === "Developers") {
        await g.page.setViewportSize({ width: 641, height: 800 }); // the narrowest without cards
        await expect.poll(() => table.evaluate((box) => box.scrollWidth - box.clientWidth), { message: title }).toBe(0);
        await g.page.setViewportSize({ width: 660, height: 800 });
      }
      asked = new Set();
      headings.add(await g.page.locator("h1").evaluate((heading) => heading.getBoundingClientRect().top));
    }
    expect(headings.size).toBe(1); // with and without a button beside it
    // Loaded again, with all that belongs to the frame.
    const keys: { id: string; rotated_from: string | null; project_id: string }[] = (
      await demo.call("GET /v1/keys?limit=200")
    ).data;
    const rotated = keys.find(({ rotated_from }) => rotated_from !== null);
    const records = [`keys/${rotated?.id}`, `projects/${rotated?.project_id}`];
    for (const path of ["home", ...records, "home?first-steps"]) {
      if (path === "home?first-steps") {
        // A step is left to do: the checklist is shown.
        await g.page.evaluate("localStorage.clear()");
        await g.page.route("**/v1/secret_keys?*", (route) => route.fulfill({ json: { data: [] } }));
      }
      await g.page.goto("about:blank"); // ends the reads of the page before
      asked = new Set();
      await g.page.goto(`${demo.url}/#/w/demo/live/${path}`);
      await g.page.getByRole("heading", { name: /changes$/i }).waitFor();
      if (path === "home?first-steps") await g.page.getByRole("heading", { name: "First steps" }).waitFor();
      await g.page.locator("main [aria-busy=true]").first().waitFor({ state: "detached" });
      const calls = [...asked].filter((url) => /\/(v1|status)/.test(url));
      expect(calls.length, calls.join("\n")).toBeLessThanOrEqual(8);
      if (path !== "home") continue;
      const figures = g.page.locator(".figures > *");
      const tops = await figures.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().top));
      expect(tops.map((top) => tops.indexOf(top))).toEqual([0, 0, 0, 3, 3]); // three in a row, then two
    }
    const live = (await demo.call("GET /v1/keys?env=live&limit=1")).data[0];
    await g.page.goto("about:blank");
    asked = new Set();
    await g.page.goto(`${demo.url}/#/w/demo/live/portal?tenant=${live.tenant_id}&project=${live.project_id}`);
    await g.page.locator("keyrack-portal").getByText(live.display_prefix).first().waitFor();
    await g.page.locator("main [aria-busy=true]").first().waitFor({ state: "detached" });
    const calls = [...asked].filter((url) => /\/(v1|status)/.test(url));
    expect(calls.length, calls.join("\n")).toBeLessThanOrEqual(8);
    await g.page.setViewportSize({ width: 660, height: 800 });
    await g.page.goto(`${demo.url}/#/w/demo/live/usage?by=tenant`);
    await g.page.getByRole("img", { name: /^[\d,]+ requests, [\d.]+% denied, last 24 hours$/ }).waitFor();
    await g.page.goto(`${demo.url}/#/w/demo/live/usage?range=7d`);
    await g.page.getByRole("img", { name: /last 7 days$/ }).waitFor();
    // Once the chart has taken the width of its window.
    const areApart = () =>
      g.page.locator("svg[role=img] > text").evaluateAll((texts) => {
        const boxes = texts.map((text) => text.getBoundingClientRect());
        return boxes.length > 1 && boxes.every(({ left }, i) => i === 0 || left > boxes[i - 1]!.right);
      });
    await expect.poll(areApart).toBe(true);
    // Chosen tab, legend and states can also be recognised in the colours of the system.
    await g.page.emulateMedia({ forcedColors: "active" });
    const style = (selector: string, property: string): Promise<string> =>
      g.page
        .locator(selector)
        .first()
        .evaluate((element, name) => {
          const view = element.ownerDocument.defaultView;
          return view?.getComputedStyle(element).getPropertyValue(name) ?? "";
        }, property);
    const line = (isSelected: boolean) => style(`[role=tab][aria-selected=${isSelected}]`, "border-bottom-color");
    await expect.poll(async () => (await line(true)) === (await line(false))).toBe(false);
    const ground = await style("body", "background-color");
    for (const sign of [".swatch", ".badge.good .dot"])
      await expect.poll(() => style(sign, "background-color"), { message: sign }).not.toBe(ground);
    expect(await style(".chart text", "fill")).toBe(await style("body", "color"));
    await g.expectClean();
  });

  // Last: what it creates would be among the recent changes of Home.
  it("fits tables into every window, with long names, times on one line, and columns hidden by rank", async () => {
    const make = async (path: string, body: object) => (await demo.call(`POST ${path}`, body)).id as string;
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
      scopes: [`a-scope-with-${"a-long-name-".repeat(4)}`, "b:read"],
      expires_at,
    });
    await using g = await demo.logIn({ viewport: { width: 1280, height: 800 } });
    for (const [path, caption, width, hidden] of [
      ["fleet", "Nodes", 1280, []],
      ["keys", "Keys", 1280, []],
      ["keys", "Keys", 1100, ["Scopes", "Created"]],
      ["keys", "Keys", 641, ["Project", "Scopes", "Expires", "Created"]],
      ["keys?state=expiring", "Keys", 768, ["Project", "Scopes", "Created"]],
    ] as const) {
      await g.page.setViewportSize({ width, height: 800 });
      await g.page.goto(`${demo.url}/#/w/demo/live/${path}`);
      const table = g.page.getByRole("table", { name: caption });
      await table.waitFor();
      if (caption === "Keys") await table.getByText(long).first().waitFor();
      const where = `${path} at ${width}`;
      await expect
        .poll(() => table.locator("thead th:not(:visible)").allTextContents(), { message: where })
        .toEqual(hidden);
      const box = g.page.locator(".table-scroll").first();
      await expect
        .poll(() => box.evaluate((scroll) => scroll.scrollWidth - scroll.clientWidth), { message: where })
        .toBe(0);
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
    await g.page.goto(`${demo.url}/#/w/demo/live/members`);
    const address = g.page.getByRole("rowheader").locator(".user-text", { hasText: "member@" });
    await expect.poll(() => address.evaluate((text) => text.getBoundingClientRect().height)).toBeLessThan(24);
    // The card of a phone breaks a long scope.
    await g.page.setViewportSize({ width: 320, height: 800 });
    await g.page.goto(`${demo.url}/#/w/demo/live/keys`);
    const cards = g.page.locator(".table-scroll").first();
    await cards
      .locator(".chip")
      .first()
      .evaluate((chip) => (chip.textContent = "a:a-scope-with-a-long-name"));
    await expect.poll(() => cards.evaluate((scroll) => scroll.scrollWidth - scroll.clientWidth)).toBe(0);
    // On A4, upright, every column is on the paper.
    await g.page.emulateMedia({ media: "print" });
    await g.page.setViewportSize({ width: 720, height: 1000 });
    for (const path of ["keys", "tenants", "projects", "fleet", "audit"]) {
      await g.page.goto(`${demo.url}/#/w/demo/live/${path}`);
      await g.at(new RegExp(`^${path}$`, "i"));
      const table = g.page.getByRole("table").first();
      await (path === "fleet" ? table : table.getByText(long).first()).waitFor();
      const end = await table.evaluate((all) => all.getBoundingClientRect().right);
      expect(end, path).toBeLessThanOrEqual(720);
    }
    await g.page.emulateMedia({ media: "screen" });
    // Only names that start with it are found, so the page says so. Long enough that no random key begins with it.
    await g.page.goto(`${demo.url}/#/w/demo/live/keys?q=arbour`);
    await g.page.getByText(/matches the start of words/).waitFor();
    await g.expectClean();
  });
});
