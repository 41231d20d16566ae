// The preview of the portal, its origins, and usage.
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

describe.runIf(hasBrowser)("portal and usage", () => {
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

  it("previews the portal with a tenant's keys, and changes nothing", async () => {
    const t = await shop(suite.instance);
    const scope_catalogue = [{ name: "orders:read", description: "Read orders", default: false }];
    await suite.instance.call(t.owner.session, `PATCH /v1/projects/${t.project_id}`, { scope_catalogue });
    const key = { project_id: t.project_id, tenant_id: t.tenant_id, env: "live", name: "Their key" };
    await suite.instance.call(t.owner.session, "POST /v1/keys", key);
    await suite.instance.call(t.owner.session, "POST /v1/tenants", { external_id: "initech", name: "Initech" });
    const g = await open(t, { page: "portal" });
    const { page } = g;
    const portal = page.locator("keyrack-portal");
    await page.getByText("Sample data. Choose a tenant").waitFor();
    await portal.getByText("Reporting").waitFor();
    await page.getByRole("combobox", { name: "Tenant" }).click();
    await page.getByRole("option", { name: /Initech/ }).click();
    await page.getByText("This tenant has no live keys in this project. What you see is sample data.").waitFor();
    await portal.getByText("Example customer").waitFor(); // invented keys are not shown as Initech's
    // Leaving the field, as by leaving the page, chooses nothing: the choice is in the address.
    await page.getByRole("combobox", { name: "Tenant" }).fill("glo");
    await page.getByRole("option", { name: /Initech/ }).waitFor({ state: "detached" });
    await page.getByRole("option", { name: /Globex/ }).waitFor();
    await page.keyboard.press("Tab");
    await expect.poll(() => page.getByRole("combobox", { name: "Tenant" }).inputValue()).toBe("Initech");
    await page.getByRole("combobox", { name: "Tenant" }).fill("glo");
    await page.getByRole("option", { name: /Globex/ }).click();
    await portal.getByText("Their key").waitFor();
    await portal.getByText(/^Globex/).waitFor();
    await expect.poll(() => page.getByText("sample data").count()).toBe(0);
    await page.reload(); // the address has the choice
    await portal.getByText("Their key").waitFor();
    await portal.getByRole("button", { name: /^Revoke/ }).click();
    await portal
      .getByRole("dialog")
      .getByRole("button", { name: /^Revoke/ })
      .click();
    await portal.getByText("This is a preview. Nothing was changed.").waitFor();
    const { body } = await suite.instance.call(t.owner.session, `GET /v1/keys?tenant_id=${t.tenant_id}`);
    expect(body.data.map(({ name }: { name: string }) => name)).toEqual(["Their key"]);
    await portal.getByRole("button", { name: /Cancel/ }).click();
    await page.getByText("Colours", { exact: true }).click();
    await page.getByLabel("Surface", { exact: true }).fill("#fff7e6");
    const surface = "getComputedStyle(document.querySelector('keyrack-portal')).getPropertyValue('--keyrack-surface')";
    await expect.poll(() => page.evaluate(surface)).toBe("#fff7e6");
    await page.getByRole("tab", { name: "CSS" }).click();
    await expect
      .poll(() => page.getByRole("region", { name: "CSS snippet" }).innerText())
      .toContain("--keyrack-surface: #fff7e6;");
    await expectAccessible(page);
    // Paper has neither controls nor the buttons of the preview.
    await page.emulateMedia({ media: "print" });
    await expect.poll(() => page.locator("main :is(button, select, input):visible").count()).toBe(0);
    await portal.getByRole("heading", { name: "Their key" }).waitFor();
    await page.emulateMedia({ media: "screen" });
    // Shortcuts of the dashboard leave what is typed in the preview alone.
    await portal.getByRole("button", { name: "Create key" }).click();
    await portal.getByRole("textbox", { name: /^Name/ }).press("g");
    await page.keyboard.type("k?/");
    await expect.poll(() => portal.getByRole("textbox", { name: /^Name/ }).inputValue()).toBe("gk?/");
    await portal.getByText("Read orders").waitFor(); // the project's words for a scope
    expect(page.url()).toContain("/portal");
    await portal.getByRole("button", { name: /Cancel/ }).click();

    await page.getByLabel("Origin", { exact: true }).fill("app.example.com/path");
    await button(page, "Add origin").click();
    await page.locator("[aria-invalid=true]").waitFor();
    await page.getByLabel("Origin", { exact: true }).fill("https://app.example.com");
    await button(page, "Add origin").click();
    await page.getByText("Origin added.").waitFor();
    await expectAccessible(page);
    // A refusal stays at its origin.
    const refused = { error: { code: "forbidden", message: "Not now.", details: [], request_id: "r" } };
    await page.route("**/v1/workspace", (route) =>
      route.request().method() === "PATCH" ? route.fulfill({ status: 403, json: refused }) : route.continue(),
    );
    await button(page, "Remove https://app.example.com").click();
    const origins = page.getByRole("list", { name: "Origins" });
    const remove = page.getByRole("dialog", { name: "Remove origin" });
    await remove.getByText("https://app.example.com").waitFor();
    await remove.getByText("in live and in test").waitFor();
    await button(page, "Remove origin").click();
    await remove.getByRole("alert").getByText("Not now.").waitFor();
    await expectAccessible(page);
    await button(page, "Cancel").click();
    await page.unroute("**/v1/workspace");
    // A change is based on what the one before left, and what is being typed stays.
    await page.getByLabel("Origin", { exact: true }).fill("https://b.example.com");
    await button(page, "Add origin").click();
    await origins.getByText("https://b.example.com").waitFor();
    await page.getByLabel("Origin", { exact: true }).fill("https://c.example.com");
    for (const origin of ["app", "b"]) {
      await button(page, `Remove https://${origin}.example.com`).click();
      await button(page, "Remove origin").click();
      await remove.waitFor({ state: "detached" });
    }
    await page.getByText("None yet. The portal opens nowhere until you add one").waitFor();
    await expect.poll(() => page.getByLabel("Origin", { exact: true }).inputValue()).toBe("https://c.example.com");
    await page.getByRole("combobox", { name: "Theme" }).selectOption("Dark");
    await page.locator("keyrack-portal[theme=dark]").waitFor(); // it does not leave the page
    // A refusal to leave leaves the switch where it was.
    const asked = page.waitForEvent("dialog");
    page.once("dialog", (dialog) => void dialog.dismiss());
    await page.getByLabel("Test", { exact: true }).click();
    await asked;
    await expect.poll(() => page.getByLabel("Live", { exact: true }).isChecked()).toBe(true);
    await expect.poll(() => page.url()).toContain("/live/portal");
    await g.expectClean();
  });

  it("shows no sample data for a tenant that is not there yet, or not any more", async () => {
    const t = await shop(suite.instance);
    const g = await open(t, { page: "home" });
    const { page } = g;
    const portal = page.locator("keyrack-portal");
    const arrived = Promise.withResolvers<void>();
    await page.route("**/v1/tenants/*", async (route) => {
      await arrived.promise;
      await route.continue();
    });
    await g.show(`portal?tenant=${t.tenant_id}`);
    await g.at("Portal");
    await page.getByRole("combobox", { name: "Tenant" }).waitFor();
    expect(await portal.count()).toBe(0);
    arrived.resolve();
    await page.getByText("This tenant has no live keys in this project. What you see is sample data.").waitFor();
    await suite.instance.call(t.key, `DELETE /v1/tenants/${t.tenant_id}`);
    await page.reload();
    await page.getByRole("heading", { name: "Not found" }).waitFor();
    expect(await portal.count()).toBe(0);
    await g.show("portal?tenant=nope");
    await page
      .locator(".panel")
      .first()
      .getByText(/^(Not found|This could not be loaded\.)$/)
      .waitFor();
    expect(await portal.count()).toBe(0);
    await page.getByRole("combobox", { name: "Tenant" }).fill("");
    await page.getByText("Sample data. Choose a tenant").waitFor();
    await portal.getByText("Reporting").waitFor();
    await g.expectClean();
  });

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
