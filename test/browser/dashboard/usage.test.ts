// Usage: traffic and active tenants as chart, table and CSV.
import { readFileSync } from "node:fs";
import type { Locator } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, useOwnerPage, type Shop } from "../../../harness/browser/dashboard.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { button, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";
import { foldJournal } from "../../../src/domain/series/fold.ts";

const DAY_MS = 86_400_000;

describe.runIf(hasBrowser)("usage", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  /** Three allowed requests, one that was rate limited, and one refused for a reason named like a property of Object. */
  const reportTraffic = async (t: Shop, key_id: string | null = null): Promise<void> => {
    const { instance } = suite;
    const own = {
      ts: new Date(instance.clock.now()).toISOString(),
      project_id: t.project_id,
      tenant_id: t.tenant_id,
      key_id,
    };
    const events = [0, 1, 2, 3, 4].map((i) => telemetryEvent({ ...own, request_id: `${t.id} ${i}` }));
    Object.assign(events[3] ?? {}, { status: 429, denial_reason: "rate_limited" });
    Object.assign(events[4] ?? {}, { status: 403, denial_reason: "constructor" });
    await instance.call(t.key, "POST /v1/ingest/batch", telemetryBatch(events));
    await foldJournal(instance.app.services);
  };

  it("says that no tenant was active, without an empty chart", async () => {
    const t = await shop(suite.instance);
    const g = await open(t, { page: "usage?tab=billing" });
    const { page } = g;
    await page.getByRole("heading", { name: "No live request was allowed this month" }).waitFor();
    await page.getByText(/^0 active tenants this month\./).waitFor();
    await expect.poll(() => page.getByRole("figure").count()).toBe(0); // no axes without data
    await expectAccessible(page);
    await g.expectClean();
  });

  it("shows active tenants by month as chart, table and CSV", async () => {
    const t = await shop(suite.instance);
    const g = await open(t, { page: "home" });
    const { page } = g;
    await page.route("**/v1/usage/billing*", async (route) => {
      const response = await route.fetch();
      const { data, ...others } = await response.json();
      const counted = data.map((row: object, i: number) => ({ ...row, active_tenants: i }));
      await route.fulfill({ response, json: { ...others, data: counted } });
    });
    await g.show("usage?tab=billing");
    await page.getByRole("img", { name: "0 active tenants this month, last 12 months" }).waitFor();
    await expect.poll(() => page.locator(".chart-legend").innerText()).toMatch(/^Active tenants\s+0$/); // not the sum of months
    await button(page, "Show as table").click();
    const rows = page.getByRole("region", { name: /last 12 months$/ }).getByRole("row");
    await expect.poll(() => rows.count()).toBe(13); // and the head
    await expect.poll(() => rows.nth(1).getByRole("cell").allTextContents()).toEqual(["11"]); // oldest first
    const downloads = page.waitForEvent("download");
    await page.getByRole("figure").getByRole("button", { name: "Download CSV" }).click();
    expect((await downloads).suggestedFilename()).toBe("active-tenants.csv");
    await expectAccessible(page);
    await g.expectClean();
  });

  it("says whether filters hide the requests, and what is beyond the largest groups", async () => {
    const t = await shop(suite.instance);
    const g = await open(t, { page: "usage" });
    const { page } = g;
    const none = page.getByRole("heading", { name: "No requests in the last 24 hours" });
    await page.getByText("Nodes report the requests that they verify.").waitFor();
    await none.waitFor();
    await g.show(`usage?project=${t.project_id}`);
    await page.getByText("No requests match your filters.").waitFor();
    await none.waitFor();
    await page.locator("section.empty").getByRole("button", { name: "Clear filters" }).click();
    await page.getByText("Nodes report the requests that they verify.").waitFor();

    await reportTraffic(t);
    await page.route("**/v1/usage/series*", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      const [one] = json.series;
      const named = (_: unknown, i: number) => ({
        ...one,
        group: `${i}`,
        label: `GET /v1/organisations/:id/orders/${i}`,
      });
      const series = Array.from({ length: 10 }, named);
      await route.fulfill({ response, json: { ...json, series, other: one } });
    });
    await page.setViewportSize({ width: 360, height: 740 });
    await g.show("usage?by=route");
    const figure = page.getByRole("figure");
    await figure.locator("figcaption").getByText("All but the 4 largest", { exact: true }).waitFor();
    await page.getByRole("row", { name: /^All but the 10 largest/ }).waitFor();
    // A long text about a bar moves nothing.
    const top = (): Promise<number> =>
      page.evaluate("document.querySelector('.chart svg').getBoundingClientRect().top");
    await figure.getByRole("group").focus();
    const before = await top();
    await page.keyboard.press("End");
    await figure.getByRole("status").getByText("GET /v1/organisations/:id/orders/3").waitFor();
    expect(await top()).toBe(before);
    await page.setViewportSize({ width: 320, height: 640 });
    await g.show("portal");
    const portal = page.locator("keyrack-portal");
    const revoke = portal.getByRole("button", { name: /^Revoke/ }).first();
    await revoke.waitFor();
    const rightOf = async (of: Locator): Promise<number> => {
      const { x, width } = (await of.boundingBox()) ?? { x: Infinity, width: 0 };
      return x + width;
    };
    expect(await rightOf(revoke)).toBeLessThan(await rightOf(portal)); // not cut
    await g.expectClean();
  });

  it("names every group that the table names, and says what has no key", async () => {
    const t = await shop(suite.instance);
    await reportTraffic(t);
    const g = await open(t, { page: "usage" });
    const { page } = g;
    const legend = page.getByRole("figure").locator("figcaption");
    const allowed = page.getByRole("row", { name: /^Allowed/ }).getByRole("cell");
    await expect.poll(() => allowed.allInnerTexts()).toEqual(["3", "60.0%"]); // as others with a decimal
    await g.show("usage?by=project");
    await legend.getByText("Orders", { exact: true }).waitFor(); // not its slug
    await g.show("usage?by=key");
    await legend.getByText("No key", { exact: true }).waitFor();
    await page.route("**/v1/usage/series*", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      const series = ["a", "b", "c", "d", "e"].map((group) => ({ ...json.series[0], group, label: `GET /${group}` }));
      await route.fulfill({ response, json: { ...json, series, other: null } });
    });
    await g.show("usage?by=route");
    await legend.getByText("GET /e", { exact: true }).waitFor();
    await g.expectClean();
  });

  it("shows traffic by outcome and by tenant as chart, table and CSV, and keeps the choice in the address", async () => {
    const t = await shop(suite.instance);
    const { project_id, tenant_id } = t;
    const nightly = { project_id, tenant_id, env: "live", name: "Nightly" };
    await reportTraffic(t, (await suite.instance.call(t.key, "POST /v1/keys", nightly)).body.id as string);
    const g = await open(t, { page: "home" });
    const { page } = g;
    await page.getByRole("img", { name: /^5 requests, 40% denied, last 24 hours$/ }).waitFor();
    const verified = page.getByRole("listitem").filter({ hasText: "First verified request" });
    await verified.getByText("Done").waitFor();
    await expectAccessible(page);
    await g.show("usage");
    await page.getByRole("img", { name: /^5 requests/ }).waitFor();
    const legend = page.getByRole("figure").locator("figcaption");
    await expect.poll(() => legend.textContent()).toBe("Allowed 3Rate limited 1Other 1");
    await page.emulateMedia({ media: "print" });
    await expect.poll(() => legend.locator("button:visible").count()).toBe(3); // what the bars of the paper are
    await expect.poll(() => button(page, "Show as table").count()).toBe(0);
    await page.emulateMedia({ media: "screen" });
    // Without the largest series the others fill the chart.
    const top = page.locator(".chart text").nth(2);
    const scale = await top.textContent();
    await legend.getByRole("button", { name: "Allowed 3", pressed: true }).click();
    await legend.getByRole("button", { name: "Allowed 3", pressed: false }).waitFor();
    await expectAccessible(page);
    expect(scale).toBe("6");
    await expect.poll(() => top.textContent()).toBe("4");
    await page.getByRole("rowheader", { name: "constructor", exact: true }).waitFor();
    await button(page, "Show as table").click();
    const figures = page.getByRole("region", { name: /^5 requests/ });
    await expect.poll(() => figures.getByRole("row").count()).toBe(26);
    await expect
      .poll(() => figures.getByRole("row").last().getByRole("cell").allTextContents())
      .toEqual(["3", "1", "1"]);
    await page.getByRole("combobox", { name: "Group" }).selectOption("tenant");
    await legend.getByText("Globex", { exact: true }).waitFor(); // by its name
    await page.getByRole("combobox", { name: "Range" }).selectOption("12m");
    await page.getByRole("img", { name: /^5 requests, 40% denied, last 12 months$/ }).waitFor();
    const months = page.getByRole("region", { name: /last 12 months$/ }).getByRole("row");
    await expect.poll(() => months.count()).toBe(13); // and the head
    await expect.poll(() => months.last().getByRole("cell").allTextContents()).toEqual(["5"]);
    await page.getByRole("combobox", { name: "Range" }).selectOption("30d");
    await page.getByRole("img", { name: /last 30 days$/ }).waitFor();
    expect(page.url()).toContain("by=tenant&range=30d");
    const downloads = page.waitForEvent("download");
    await button(page, "Download CSV").click();
    expect((await downloads).suggestedFilename()).toBe("requests-by-tenant-30d.csv");
    const csv = readFileSync(await (await downloads).path(), "utf8");
    expect(csv.split("\n")[1]).toMatch(/^"?20\d\d-\d\d-\d\dT\d\d:00:00/); // of use outside the chart
    await page.getByRole("combobox", { name: "Group" }).selectOption("key");
    const row = page.getByRole("rowheader", { name: /^Nightly/ });
    await expect.poll(() => row.innerText()).toMatch(/^Nightly\s+kr_live_\S{6}… · Globex$/);
    await legend.getByText(/^Nightly \(kr_live_\S{6}…\)$/).waitFor();
    // A server that keeps fewer hours than the range has days: it has left out the first, or refuses.
    await page.route("**/v1/usage/series*", (route) => {
      const url = new URL(route.request().url());
      const late = new Date(suite.instance.clock.now() - 2 * DAY_MS).toISOString();
      if (url.searchParams.has("time_zone")) url.searchParams.set("from", late);
      if (url.searchParams.get("bucket") === "hour") url.searchParams.set("from", "2020-01-01T00:00:00Z");
      return route.continue({ url: url.href });
    });
    await g.show("usage?range=7d");
    await page.getByText("5 requests, 40% denied, last 7 days. Days are in UTC.").waitFor();
    await g.show("usage?range=30d");
    await page.getByText("5 requests, 40% denied, last 30 days. Days are in UTC.").waitFor();
    await button(page, "Show as table").click();
    expect(
      await page
        .getByRole("region", { name: /last 30 days$/ })
        .getByRole("row")
        .count(),
    ).toBe(32); // and the head
    await page.unroute("**/v1/usage/series*");
    await page.getByRole("tab", { name: "Billing" }).click();
    await page.getByRole("table", { name: "Requests by tenant" }).waitFor();
    const bills = page.waitForEvent("download");
    await button(page, "Download CSV").last().click();
    const bill = readFileSync(await (await bills).path(), "utf8");
    expect(bill).toMatch(/,requests,first_seen_at,last_seen_at\r\n.*Globex.*,3,20\d\d-[^,]*Z,20\d\d-[^,]*Z\r\n$/);
    await expectAccessible(page);
    await g.expectClean();
  });
});
