// The frame around the pages: palette, shortcuts, workspaces; and every look of the pages that need no data.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { expectAccessible, expectAccessibleInLooks, LOOKS, setLook } from "../../../harness/browser/pages.ts";
import { button, dialog, field, useBrowserSuite } from "../../../harness/browser/suite.ts";

describe.runIf(hasBrowser)("the dashboard's frame", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("jumps by palette and shortcuts, and never sends a pasted credential", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const made = await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    const key = made.body.key as string;
    const g = await open(at, { page: "home" });
    const { page } = g;
    await g.at("Home");
    const sent: string[] = [];
    page.on("request", (request) => sent.push(request.url() + (request.postData() ?? "")));
    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Command palette" });
    await palette.waitFor();
    const found = (group: string, name: RegExp) =>
      palette.getByRole("group", { name: group }).getByRole("option", { name });
    await page.keyboard.press("End"); // scrolls to the last
    const isInView = `(({ top, bottom }, box) => top >= box.top && bottom <= box.bottom)(
      document.querySelector("[aria-selected=true]").getBoundingClientRect(),
      document.querySelector("[role=listbox]").getBoundingClientRect())`;
    await found("Actions", /^Switch to test/).waitFor();
    await expect.poll(() => page.evaluate(isInView)).toBe(true);
    await page.keyboard.type(at.key);
    const said = palette.getByRole("status");
    await said.getByText(/^This is a secret key \(krsk_live_[\w-]{6}…\)\. It was not sent anywhere\.$/).waitFor();
    await expectAccessible(page);
    await field(page, "Search or jump to").fill(`${at.key.slice(0, -1)}x`);
    await said.getByText("This key is mistyped").waitFor();
    expect(sent.filter((text) => text.includes(at.key.slice(12, 30)))).toEqual([]);
    // An API key is looked up, once, in the body of a request.
    await field(page, "Search or jump to").fill(key);
    await found("Keys", /^CI allowed/).waitFor();
    await field(page, "Search or jump to").fill("");
    await field(page, "Search or jump to").fill(`authorization: Bearer ${key}`);
    await found("Keys", /^CI allowed/).waitFor();
    const lookups = sent.filter((text) => text.includes(key));
    expect(lookups).toEqual([`${suite.instance.url}/v1/keys/lookup${JSON.stringify({ key })}`]);
    await field(page, "Search or jump to").fill("glob");
    await found("Tenants", /^Globex globex/).waitFor();
    await found("Keys", /^CI kr_live_[\w-]{6}… · Globex$/).waitFor();
    await said.getByText("2 results").waitFor();
    await field(page, "Search or jump to").fill("order");
    await found("Projects", /^Orders orders/).waitFor();
    expect(sent.filter((text) => text.includes("/v1/projects?")).length).toBeLessThan(2); // not again for each pause
    // What is cut is not counted as all, and one option leads to the whole list.
    for (const name of ["CI 2", "CI 3", "CI 4", "CI 5"])
      await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name });
    await field(page, "Search or jump to").fill("globe");
    await said.getByText("At least 5 results").waitFor();
    await found("Keys", /^All keys matching “globe”$/).click();
    await expect.poll(() => page.getByRole("rowheader").count()).toBe(5);
    // A revoked key is found where no other is, and in the list when it is asked for.
    await suite.instance.call(at.key, `POST /v1/keys/${made.body.id}/revoke`, {});
    const prefix = String(made.body.display_prefix);
    await page.keyboard.press("Control+k");
    await field(page, "Search or jump to").fill(prefix);
    await found("Keys", /^CI kr_live_[\w-]{6}… · Globex · revoked$/).waitFor();
    await page.keyboard.press("Escape");
    await page.getByLabel("Search keys").fill(prefix);
    await button(page, "Include revoked keys").click();
    await page.getByRole("rowheader", { name: /^CI\b/ }).waitFor();
    await expect.poll(() => page.getByRole("rowheader").count()).toBe(1);
    await page.keyboard.press("Control+k");
    await field(page, "Search or jump to").fill("sett");
    await page.keyboard.press("Enter");
    await g.at("Settings");
    await page.keyboard.press("g");
    await page.keyboard.press("k");
    await g.at("Keys");
    await page.keyboard.press("c");
    await page.getByRole("dialog", { name: "Create key" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await page.keyboard.press("Escape");
    await g.show("members");
    await page.getByRole("table", { name: "Members" }).waitFor();
    await page.keyboard.press("j");
    await expect.poll(() => page.evaluate("document.activeElement.ariaLabel")).toBe(`Actions for ${at.owner.email}`);
    await g.show("plans");
    await page.getByRole("heading", { name: "No plans yet" }).waitFor();
    await page.keyboard.press("c"); // the button of an empty list
    await page.getByRole("dialog", { name: "Create plan" }).waitFor();
    await page.keyboard.press("Escape");
    await g.show("keys");
    await page.getByRole("table", { name: "Keys" }).waitFor();
    await page.setViewportSize({ width: 640, height: 400 });
    await button(page, "Actions for CI 4").click();
    const menu = "document.querySelector('[role=menu]:popover-open')?.getBoundingClientRect()";
    await expect.poll(() => page.evaluate(`(({ top, bottom }) => top >= 0 && bottom <= 400)(${menu})`)).toBe(true);
    await page.keyboard.press("Escape");
    await page.setViewportSize({ width: 1280, height: 720 });
    await button(page, "Workspace: Team").click();
    await page.getByRole("menuitem", { name: "Team", description: `Owner · ${at.slug}` }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByLabel("Test", { exact: true }).click();
    await page.getByText("Test data").waitFor();
    await expect.poll(() => page.title()).toBe("Keys · Team (test) · Keyrack");
    await page.getByRole("link", { name: "Developers", exact: true }).click(); // its list has both
    await page.getByText("Test data and live data", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Search" }).first().click();
    await page.getByRole("dialog", { name: "Command palette" }).waitFor();
    await page.mouse.click(5, 5); // on the backdrop
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await g.show("nowhere");
    await g.at("This page does not exist");
    await page.goto(`${suite.instance.url}/#/w/not-mine/live/home`);
    await page.getByText("You are not a member of this workspace.").waitFor();
    await g.expectClean();
  });

  it("says that the server has a newer page at the first check, and that it is offline, and recovers", async () => {
    const at = await shop(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "keys" });
    await g.page.getByText("No live keys yet").waitFor();
    await expect.poll(() => g.page.locator("main .button.primary").count()).toBe(1); // of the empty list
    expect(await g.page.getByText("A new version of this page is available.").count()).toBe(0);
    await g.page.route("**/v1/instance", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), build: "newer" } });
    });
    await g.page.reload();
    await g.page.getByText("No live keys yet").waitFor();
    await g.page.evaluate("dispatchEvent(new Event('focus'))");
    await g.page.getByText("A new version of this page is available.").waitFor();
    await g.page.unroute("**/v1/instance");
    await g.page.context().setOffline(true);
    await g.page.getByText(/^Offline\. Showing data from/).waitFor(); // although this page does not poll
    await g.page.getByRole("link", { name: "Settings" }).click();
    await g.page.getByText("Cannot reach the server.").waitFor();
    const banner = g.page.locator(".banner.bad");
    // Nothing of this page is older data.
    await expect.poll(() => banner.innerText()).toBe("Offline. The server cannot be reached.");
    await g.page.context().setOffline(false);
    await field(g.page, "Workspace name").waitFor();
    await expect.poll(() => g.page.getByText(/^Offline/).count()).toBe(0);
    // The login page shows no data that could be old.
    await button(g.page, "Account menu").click();
    await g.page.getByRole("menuitem", { name: "Log out" }).click();
    await g.at("Log in");
    await g.page.context().setOffline(true);
    await expect.poll(() => banner.innerText()).toBe("Offline. The server cannot be reached.");
  });

  it("keeps the record, the range and the filters when the environment is switched, but not the page of a list", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const want = { project_id, tenant_id, env: "live", name: "CI" };
    const { id } = (await suite.instance.call(at.key, "POST /v1/keys", want)).body;
    const g = await open(at, { page: "home" });
    const { page } = g;
    for (const [from, to] of [
      [`tenants/${tenant_id}?range=30d`, `tenants/${tenant_id}?range=30d`],
      [`projects/${project_id}`, `projects/${project_id}`],
      ["audit/2", "audit/2"],
      ["usage?range=30d&by=tenant", "usage?range=30d&by=tenant"],
      [`keys?state=disabled&q=web&after=${id}`, "keys?state=disabled&q=web"],
      [`keys/${id}?range=7d`, "keys"], // a key belongs to one environment
    ]) {
      await g.show(String(from));
      await page.getByLabel("Live", { exact: true }).and(page.locator(":checked")).waitFor();
      await page.getByLabel("Test", { exact: true }).click();
      await expect.poll(() => page.url()).toBe(`${suite.instance.url}/#/w/${at.slug}/test/${to}`);
    }
    await g.show("usage?range=30d");
    await g.at("Usage");
    await page.keyboard.press("Control+k");
    await field(page, "Search or jump to").fill("switch to");
    await page.keyboard.press("Enter");
    await expect.poll(() => page.url()).toBe(`${suite.instance.url}/#/w/${at.slug}/test/usage?range=30d`);
    await g.expectClean();
  });

  it("passes axe and fits the window on every page in every look", async () => {
    const at = await shop(suite.instance);
    const g = await open(at, { page: "home", env: "test" });
    const { page } = g;
    const account = page.getByRole("menuitem", { name: /^Account/ });
    await page.getByRole("list", { name: "Checklist" }).waitFor();
    await page.getByRole("link", { name: "First verified request" }).waitFor();
    for (const [, look] of LOOKS) {
      await setLook(page, look);
      await expectAccessible(page);
    }
    await button(page, "Account menu").click();
    await account.waitFor();
    await expectAccessibleInLooks(page);
    await page.keyboard.press("Escape");
    await account.waitFor({ state: "detached" });
    await button(page, "Menu").click();
    await dialog(page, "Menu").waitFor();
    await expectAccessible(page);
    await dialog(page, "Menu").getByRole("link", { name: "Settings" }).click();
    await field(page, "Workspace name").waitFor();
    await expectAccessibleInLooks(page);
    await page.goto(`${suite.instance.url}/#/account`);
    await button(page, "End other sessions").waitFor();
    await expectAccessibleInLooks(page);
    await page.goto(`${suite.instance.url}/#/workspaces`);
    await g.at("Choose a workspace");
    await expectAccessibleInLooks(page);
    await g.expectClean();
  });

  it("has controls of 44 px for fingers", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    const touch = { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true };
    await using g = await signedIn(suite.browser, suite.instance, at, touch);
    const CONTROLS =
      "button:not(.link, .reveal), .button, select, [role=tab], .environment, .environment input, .choice input, .check";
    for (const title of ["Keys", "Usage", "Developers", "Portal", "Settings"]) {
      await g.show(title.toLowerCase());
      await g.at(title);
      await g.page.locator(".skeleton, main [aria-busy=true]").first().waitFor({ state: "detached" });
      const shown = g.page.locator(".top, main").locator(CONTROLS).locator("visible=true");
      // Of the document: the preview of the portal has a style sheet of its own.
      const small = await shown.evaluateAll((all) =>
        all
          .filter((one) => one.getRootNode() === one.ownerDocument && one.getBoundingClientRect().height < 44)
          .map((one) => one.outerHTML),
      );
      expect(small, title).toEqual([]);
      await expect
        .poll(() => g.page.evaluate("document.documentElement.scrollWidth - innerWidth"))
        .toBeLessThanOrEqual(0);
    }
    await g.expectClean();
  });
});
