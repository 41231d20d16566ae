// Where the focus goes when the button that had it is gone once it was pressed.
import type { Locator } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { button, field, useBrowserSuite } from "../../../harness/browser/suite.ts";

describe.runIf(hasBrowser)("the focus in the dashboard", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("goes to the heading when the pressed button is gone", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    const g = await open(at);
    const { page } = g;
    const focused = () => page.evaluate("document.activeElement.tagName");
    const press = async (of: Locator): Promise<void> => {
      await of.focus();
      await page.keyboard.press("Enter");
      await of.waitFor({ state: "detached" });
      await expect.poll(focused).toBe("H1");
    };
    await press(button(page, "Hide checklist"));
    await g.show(`keys?project=${project_id}`);
    await press(page.getByRole("search").getByRole("button", { name: "Clear filters" }));
    await g.show("keys?q=none");
    await page.getByText("No keys match").waitFor();
    await press(page.locator(".empty").getByRole("button", { name: "Clear filters" }));
    await page.getByLabel("Select CI").check();
    await press(button(page, "Clear selection"));
    await g.show("tenants?state=active");
    await g.at("Tenants");
    await press(page.getByRole("search").getByRole("button", { name: "Clear filters" }));
    await g.expectClean();
  });

  it("goes to the next origin after one was added, and to the heading after one was removed", async () => {
    const at = await shop(suite.instance);
    const g = await open(at, { page: "portal" });
    const { page } = g;
    const origin = field(page, "Origin");
    await origin.fill("https://app.example.com");
    await button(page, "Add origin").focus();
    await page.keyboard.press("Enter");
    const remove = button(page, "Remove https://app.example.com");
    await remove.waitFor();
    await origin.and(page.locator(":focus")).waitFor();
    await remove.focus();
    await page.keyboard.press("Enter");
    await button(page, "Remove origin").focus();
    await page.keyboard.press("Enter");
    await remove.waitFor({ state: "detached" });
    await expect.poll(() => page.evaluate("document.activeElement.tagName")).toBe("H1");
    await g.expectClean();
  });

  it("stays where a mouse has pressed what is gone", async () => {
    const at = await shop(suite.instance);
    const g = await open(at);
    const { page } = g;
    await page.setViewportSize({ width: 1280, height: 300 });
    const hide = button(page, "Hide checklist");
    await hide.waitFor();
    await page.evaluate("document.documentElement.style.overflowAnchor = 'none', scrollTo(0, 60)");
    await hide.hover();
    const before = await page.evaluate("scrollY");
    await page.mouse.down();
    await page.mouse.up();
    await hide.waitFor({ state: "detached" });
    await page.locator("h1:focus").waitFor();
    expect(await page.evaluate("scrollY")).toBe(before);
    await g.expectClean();
  });
});
