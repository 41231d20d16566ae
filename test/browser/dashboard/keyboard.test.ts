// The main flow by keyboard alone, and what Enter and Escape must not do.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { guest } from "../../../harness/browser/pages.ts";
import { button, dialog, field, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { PASSWORD } from "../../../harness/instances/people.ts";

const STOPS_MAX = 60;
const FOCUSED = `(({ labels, innerText, ariaLabel }) => ariaLabel ?? labels?.[0]?.innerText ?? innerText)(document.activeElement)`;

/** To be evaluated in a page: presses a key on what has the focus. Playwright's own keys do not reach the browser's. */
const pressed = (key: string, modifier = ""): string =>
  `document.activeElement.dispatchEvent(new KeyboardEvent("keydown",
    { key: "${key}", bubbles: true, cancelable: true, ${modifier} })) ? "left to the browser" : "taken"`;

/** Presses Tab until the element with this name has the focus. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  const seen: string[] = [];
  for (let i = 0; i < STOPS_MAX; i++) {
    await page.keyboard.press("Tab");
    const focused = String(await page.evaluate(FOCUSED)).trim();
    if (name.test(focused)) return;
    seen.push(focused);
  }
  throw new Error(`no ${String(name)} among: ${seen.join(" · ")}`);
}

describe.runIf(hasBrowser)("the dashboard by keyboard", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("the keyboard alone logs in, creates a key, revokes it and verifies the audit log", async () => {
    const t = await shop(suite.instance);
    await using g = await guest(suite.browser);
    const { page } = g;
    const { keyboard } = page;
    const opened = (name: string) => page.getByRole("dialog", { name, exact: true }).locator(":focus").waitFor();

    await g.open(`${suite.instance.url}/#/w/${t.slug}/live/home`);
    await g.at("Log in");
    await tabTo(page, /^Email$/);
    await keyboard.type(t.owner.email);
    await tabTo(page, /^Password$/);
    await keyboard.type(PASSWORD);
    await keyboard.press("Enter");
    await g.at("Home");

    await keyboard.press("Control+k");
    await opened("Command palette");
    await keyboard.type("create key");
    await keyboard.press("Enter");
    await opened("Create key");
    await tabTo(page, /^Tenant$/);
    await keyboard.type("glob");
    await page.getByRole("option", { name: /globex/ }).waitFor();
    await keyboard.press("Enter");
    await tabTo(page, /^Name/);
    await keyboard.type("Production");
    await keyboard.press("Enter");
    await opened("Save this key now");
    await expect.poll(() => page.evaluate(FOCUSED)).toBe("Copy");
    await tabTo(page, /^I have stored it$/);
    await keyboard.press("Space");
    await tabTo(page, /^Done$/);
    await keyboard.press("Enter");
    await g.at("Production");
    await expect.poll(() => page.evaluate("document.activeElement.tagName")).toBe("H1");

    await page.locator("time[tabindex]").first().focus(); // shows the exact time
    const exact = "getComputedStyle(document.activeElement, '::after').content";
    await expect.poll(() => page.evaluate<string>(exact)).toMatch(/\d{4}-\d\d-\d\dT.*Z/);
    await page.locator("h1").focus();
    await tabTo(page, /^Revoke$/);
    await keyboard.press("Enter");
    await opened("Revoke Production");
    await expect.poll(() => page.evaluate(FOCUSED)).toBe("Cancel");
    await keyboard.press("Tab");
    await expect.poll(() => page.evaluate(FOCUSED)).toBe("Revoke key");
    await keyboard.press("Enter");
    await opened("Key revoked");
    await keyboard.press("Enter"); // Done has the focus
    await page.getByText(/Revoked on/).waitFor();

    await keyboard.press("g");
    await keyboard.press("a");
    await g.at("Audit");
    await tabTo(page, /^Verify in this browser$/);
    await keyboard.press("Enter");
    await page.getByText(/^Verified: \d+ rows, in this browser/).waitFor();
    await g.expectClean();
  });

  it("deletes nothing by Enter before the slug is typed, and asks only about what closing a dialog would lose", async () => {
    const t = await shop(suite.instance);
    const g = await open(t, { page: "settings" });
    const { page } = g;
    const [writes, questions, counts]: [string[], string[], object[]] = [[], [], []];
    page.on("request", (request) => {
      if (request.method() !== "GET" && !request.url().endsWith("/v1/bulk/keys")) writes.push(request.method());
    });
    page.on("dialog", (asked) => {
      questions.push(asked.message());
      void asked.dismiss();
    });
    await field(page, "Workspace name").fill("Changed");
    await page.keyboard.press("Control+k");
    await dialog(page, "Command palette").waitFor();
    await page.keyboard.press("Escape");
    await dialog(page, "Command palette").waitFor({ state: "detached" });
    await expect.poll(() => field(page, "Workspace name").inputValue()).toBe("Changed");
    expect(questions).toEqual([]);
    await button(page, "Save").click();
    await page.getByText("Workspace saved.").first().waitFor();

    await page.route("**/v1/bulk/keys", async (route) => {
      counts.push(route.request().postDataJSON() as object);
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), matched: 1_234 } });
    });
    await g.show(`tenants/${t.tenant_id}`);
    await button(page, "More actions").click();
    await page.getByRole("menuitem", { name: "Delete tenant" }).click();
    await dialog(page, "Delete tenant").getByText("1,234 keys stop working immediately.").waitFor();
    const typed = dialog(page, "Delete tenant").getByLabel("Type globex to confirm");
    await typed.fill("x");
    await page.keyboard.press("Enter");
    await typed.fill("globex");
    expect(writes).toEqual(["PATCH"]);
    await page.keyboard.press("Enter");
    await page.getByText("Tenant deleted. 0 keys revoked.").waitFor();
    expect(writes).toEqual(["PATCH", "DELETE"]);
    expect(counts).toEqual([expect.objectContaining({ dry_run: true })]);
    expect(questions).toEqual([]);
    await g.expectClean();
  });

  it("leads along a row with the arrow keys, also to the exact time, at which Tab does not stop", async () => {
    const t = await shop(suite.instance);
    const { project_id, tenant_id } = t;
    await suite.instance.call(t.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    const g = await open(t, { page: "keys" });
    const { page } = g;
    await page.getByRole("link", { name: /^CI/ }).focus();
    const focused = (): Promise<string> => page.evaluate("document.activeElement.tagName");
    for (const tag of ["A", "A", "TIME"]) {
      await page.keyboard.press("ArrowRight");
      expect(await focused()).toBe(tag);
    }
    const shown = "getComputedStyle(document.activeElement, '::after').content";
    expect(await page.evaluate(shown)).toMatch(/^".+ \(\d{4}-\d\d-\d\dT[\d:]+Z\)"$/);
    await page.keyboard.press("ArrowLeft");
    expect(await focused()).toBe("A");
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("BUTTON"); // the menu of the row
    expect(await page.evaluate(pressed("ArrowRight"))).toBe("left to the browser"); // the last of the row
    expect(await focused()).toBe("BUTTON");
    expect(await page.evaluate(pressed("ArrowLeft", "altKey: true"))).toBe("left to the browser"); // Back
    expect(await focused()).toBe("BUTTON");
    expect(await page.evaluate(pressed("ArrowLeft"))).toBe("taken");
    await g.show("usage");
    await page.getByRole("tab", { name: "Traffic" }).focus();
    expect(await page.evaluate(pressed("ArrowLeft", "altKey: true"))).toBe("left to the browser");
    await page.getByRole("tab", { name: "Traffic", selected: true }).waitFor();
    await g.expectClean();
  });

  it("leads to rows that have no control, whose exact times Tab reaches", async () => {
    const t = await shop(suite.instance);
    const g = await open(t, { page: "home" });
    const { page } = g;
    await page.goto(`${suite.instance.url}/#/account`);
    const own = page.getByRole("row").filter({ hasText: "This session" });
    await own.waitFor();
    const focused = (): Promise<string> => page.evaluate("document.activeElement.tagName");
    for (const [key, tag] of [
      ["j", "TIME"],
      ["j", "BUTTON"],
      ["k", "TIME"],
    ] as const) {
      await page.keyboard.press(key);
      expect(await focused()).toBe(tag);
    }
    await expect.poll(() => own.locator("time[tabindex='0']").count()).toBe(1);
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("BUTTON");
    await page.keyboard.press("Shift+Tab");
    expect(await focused()).toBe("TIME");
    await g.expectClean();
  });

  it("finds the item of an open menu by its letter, which is no shortcut then", async () => {
    const t = await shop(suite.instance);
    const { project_id, tenant_id } = t;
    await suite.instance.call(t.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    const g = await open(t, { page: "keys" });
    const { page } = g;
    await button(page, "Actions for CI").click();
    await page.getByRole("menuitem", { name: "Open" }).and(page.locator(":focus")).waitFor();
    for (const key of ["c", "/", "g", "h"]) await page.keyboard.press(key); // c: Copy id, not Create key
    await page.getByRole("menuitem", { name: "Copy id" }).and(page.locator(":focus")).waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(page.url()).toContain("/keys");
    await page.keyboard.press("Escape");
    await page.keyboard.press("c");
    await dialog(page, "Create key").waitFor();
    await button(page, "Cancel").click();
    await g.expectClean();
  });

  it("keeps a dialog open while its request is in flight, and repeats a lost one with the same body", async () => {
    const t = await shop(suite.instance);
    await suite.instance.call(t.key, "POST /v1/tenants", { external_id: "initech", name: "Initech" });
    const g = await open(t, { page: "keys" });
    const { page } = g;
    const questions: string[] = [];
    page.on("dialog", (asked) => {
      questions.push(asked.message());
      void asked.dismiss();
    });
    await button(page, "Create key").first().click();
    const create = dialog(page, "Create key");
    const tenant = create.getByRole("combobox", { name: "Tenant" });
    await tenant.click();
    await create.getByRole("option", { name: /^Initech/ }).waitFor();
    const { promise: searched, resolve: answer } = Promise.withResolvers<void>();
    await page.route("**/v1/tenants*", (route) => searched.then(() => route.continue()));
    await tenant.fill("glob");
    await page.keyboard.press("Enter"); // while the list is still that of every tenant
    await expect.poll(() => tenant.inputValue()).toBe("glob");
    answer();
    await create.getByRole("option", { name: /^Initech/ }).waitFor({ state: "detached" });
    await page.keyboard.press("Enter");
    await create.getByLabel(/^Expires/).selectOption("In 30 days");

    // The first answer is lost, the second one slow.
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    let sent = 0;
    await page.route("**/v1/keys", async (route) => {
      if (route.request().method() !== "POST") return route.continue();
      sent++;
      const response = await route.fetch();
      if (sent === 1) return route.abort("connectionreset");
      await held;
      await route.fulfill({ response });
    });
    await create.getByRole("button", { name: "Create key" }).click();
    await create.getByRole("alert").getByText("Cannot reach the server.").waitFor();
    await page.getByText(/^Offline/).waitFor({ state: "detached" });
    await create.getByRole("button", { name: "Create key" }).click();
    await create.getByRole("button", { name: "Please wait…" }).waitFor();
    await page.keyboard.press("Escape");
    await create.getByRole("button", { name: "Close" }).click();
    await create.getByRole("button", { name: "Cancel" }).click({ force: true });
    expect(questions).toEqual([]);
    await page.evaluate("history.back()");
    await expect.poll(() => questions).toEqual([expect.stringMatching(/^Leave before the server has answered\?/)]);
    release();
    await dialog(page, "Save this key now").waitFor();
    const { body } = await suite.instance.call(t.owner.session, "GET /v1/keys?env=live");
    expect([body.data.length, sent]).toEqual([1, 2]);
    await page.getByLabel("I have stored it").check();
    await button(page, "Done").click();
    await expect.poll(() => page.evaluate("violations")).toEqual([]);
  });
});
