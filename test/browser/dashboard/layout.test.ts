// What must not be covered, cut or out of line, measured in the browser.
import type { Locator } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { button, dialog, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { reportLeaks } from "../../../src/domain/leaks/leaks.ts";

type Box = { left: number; right: number; top: number; height: number };

const boxOf = (of: Locator): Promise<Box> => of.evaluate((element) => element.getBoundingClientRect().toJSON() as Box);

/** By how much the texts are wider or higher than their boxes. */
const cutOf = (of: Locator): Promise<number[]> =>
  of.evaluateAll((all) =>
    all.map((box) => Math.max(box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight)),
  );

/** To be evaluated in a page: focuses the fields of a dialog, each from every position, and names those hidden. */
const HIDDEN_LABELS = `(() => {
  const dialog = document.querySelector("dialog[open]");
  const head = dialog.querySelector(".dialog-head").getBoundingClientRect().bottom;
  const fields = [...dialog.querySelectorAll("input, select, textarea")].filter((one) => one.checkVisibility());
  const hidden = new Set();
  for (const one of fields)
    for (let y = 0; y < dialog.scrollHeight; y += 7) {
      document.activeElement.blur();
      dialog.scrollTo(0, y);
      one.focus();
      const [label] = one.labels;
      if (label && label.getBoundingClientRect().top < head) hidden.add(label.innerText);
    }
  return { scrolls: dialog.scrollHeight > dialog.clientHeight, fields: fields.length, hidden: [...hidden] };
})()`;

/**
 * To be evaluated in a page: focuses what is in its rows, from the last row to the first, and reports how much room
 * there is above what is focused and above the selection, at least.
 */
const ROOM_ABOVE = `(() => {
  const at = (selector) => document.querySelector(selector).getBoundingClientRect();
  scrollTo(0, document.documentElement.scrollHeight);
  const bar = at(".selection-bar").top - at(".head").bottom;
  const controls = [...document.querySelectorAll("tbody :is(a, input, button)")].filter((one) => one.checkVisibility());
  const rooms = controls.toReversed().map((one) => {
    one.focus();
    return one.getBoundingClientRect().top - at(".selection-bar").bottom;
  });
  return { focused: Math.min(...rooms), bar };
})()`;

describe.runIf(hasBrowser)("the layout of the dashboard", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("shows when a leaked key stops working beside the buttons, and the whole name of its tenant", async () => {
    const at = await shop(suite.instance, "Example customer");
    const { project_id, tenant_id } = at;
    const want = { project_id, tenant_id, env: "live", name: "Analytics 2" };
    const { key } = (await suite.instance.call(at.key, "POST /v1/keys", want)).body;
    const { services } = suite.instance.app;
    const location = "https://github.com/example/repository/blob/main/config.js";
    await reportLeaks({ services, actor: { kind: "scanner" } }, [{ token: key, type: "keyrack_api_key", location }]);
    const g = await open(at, { page: "leaks" });
    const { page } = g;
    const stops = page.locator("td[data-label='Stops working'] .cell");
    await stops.waitFor();
    for (const width of [1150, 1200, 1280]) {
      await page.setViewportSize({ width, height: 720 });
      const buttons = await boxOf(page.locator("tbody .actions"));
      expect((await boxOf(stops.locator("time"))).right, `at ${width}`).toBeLessThanOrEqual(buttons.left);
    }
    await g.show("keys");
    await page.getByRole("row", { name: /Analytics 2/ }).waitFor();
    expect(await cutOf(page.locator("td[data-label=Tenant] .cut"))).toEqual([0]);
    await g.expectClean();
  });

  it("limits a long external id to one line, and aligns the link of a tenant without keys", async () => {
    const at = await shop(suite.instance);
    await suite.instance.call(at.key, "POST /v1/tenants", {
      external_id: "abcdef-0123456789-".repeat(11),
      name: "Long",
    });
    const g = await open(at, { page: "tenants" });
    const { page } = g;
    const row = page.getByRole("row", { name: /^Long/ });
    const heightOf = async (of: Locator): Promise<number> => (await boxOf(of)).height;
    expect(await heightOf(row)).toBe(await heightOf(page.getByRole("row", { name: /^Globex/ })));
    await g.show(`tenants/${at.tenant_id}`);
    const link = await boxOf(page.getByRole("link", { name: "All keys, including revoked" }));
    expect(link.left).toBe((await boxOf(page.getByText("No live keys.", { exact: true }))).left);
    await g.expectClean();
  });

  it("shows members the whole reason in menus, and commands on one line beside it", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "keys", role: "member" });
    const { page } = g;
    await button(page, "Actions for CI").click();
    const reasons = page.locator(".menu:popover-open .menu-hint");
    await expect.poll(() => reasons.count()).toBe(1); // once for all four
    expect(await cutOf(reasons)).toEqual([0]);
    const description = "Members can view but not change. Ask an owner or admin.";
    await expect.poll(() => page.getByRole("menuitem", { disabled: true, description }).count()).toBe(4);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search or jump to" }).fill("create key");
    const command = page.getByRole("option", { name: /^Create key/ }).locator("bdi");
    const [words, reason] = [await boxOf(command.first()), await boxOf(command.last())];
    expect(words.height).toBeLessThan(30);
    expect(reason.left).toBeGreaterThan(words.right);
    await g.expectClean();
  });

  it("keeps the selection below the header and its banners, and what is focused below the selection", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    for (let n = 1; n <= 12; n++)
      await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "test", name: `Key ${n}` });
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "keys?limit=25", env: "test" });
    const { page } = g;
    await page.getByLabel("Select Key 12").check();
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 480 });
      for (const isOffline of [false, true]) {
        await page.context().setOffline(isOffline);
        await expect.poll(() => page.locator(".banner.bad").count()).toBe(isOffline ? 1 : 0);
        await expect
          .poll(() => page.evaluate<{ focused: number; bar: number }>(ROOM_ABOVE), { message: `${width} ${isOffline}` })
          .toSatisfy(({ focused, bar }) => focused >= 0 && bar >= 0);
      }
    }
    // On a phone it is one row.
    const bar = page.getByRole("region", { name: "Selection" });
    const tops = await bar
      .getByRole("button", { name: / selected$|^Clear/ })
      .evaluateAll((all) => all.map((one) => one.getBoundingClientRect().top));
    expect([tops.length, new Set(tops).size]).toEqual([3, 1]);
  });

  it("shows the label of a field that takes the focus below the header of its dialog", async () => {
    const at = await shop(suite.instance);
    const g = await open(at, { page: "keys" });
    const { page } = g;
    await page.setViewportSize({ width: 1280, height: 500 });
    await button(page, "Create key").first().click();
    await dialog(page, "Create key")
      .getByLabel(/^Expires/)
      .waitFor();
    const found = await page.evaluate<{ scrolls: boolean; fields: number; hidden: string[] }>(HIDDEN_LABELS);
    expect(found).toEqual({ scrolls: true, fields: expect.any(Number), hidden: [] });
    expect(found.fields).toBeGreaterThan(3);
    await page.keyboard.press("Escape");
    await g.expectClean();
  });

  it("warns in red before what takes something away, not before what gives it back", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const want = { project_id, tenant_id, env: "live", name: "CI" };
    const { id } = (await suite.instance.call(at.key, "POST /v1/keys", want)).body;
    const g = await open(at, { page: `tenants/${tenant_id}` });
    const { page } = g;
    const expectKind = async (verb: string, name: string, kind: string): Promise<void> => {
      await button(page, verb).click();
      await expect.poll(() => button(page, name).getAttribute("class"), { message: name }).toBe(`button ${kind}`);
      await button(page, "Cancel").click();
    };
    await expectKind("Suspend", "Suspend tenant", "danger");
    await suite.instance.call(at.key, `POST /v1/tenants/${tenant_id}/suspend`, {});
    await page.reload();
    await expectKind("Resume", "Resume tenant", "primary");
    await g.show(`keys/${id}`);
    await expectKind("Disable", "Disable key", "danger");
    await suite.instance.call(at.key, `POST /v1/keys/${id}/disable`, {});
    await page.reload();
    await expectKind("Enable", "Enable key", "primary");
    await g.expectClean();
  });
});
