// From a list to a record and back: the row, the filters and what a new record is made for.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn } from "../../../harness/browser/dashboard.ts";
import { button, dialog, field, fillLogin, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { memberOf, PASSWORD } from "../../../harness/instances/people.ts";

/** To be evaluated in a page: whether the first field of the open dialog is below its header. */
const IS_BELOW_HEADER = `(() => {
  const dialog = document.querySelector("dialog[open]");
  const bottom = dialog.querySelector(".dialog-head").getBoundingClientRect().bottom;
  return dialog.querySelector("input").getBoundingClientRect().top >= bottom;
})()`;

/** To be evaluated in a page: where its first row is, and what has the focus. */
const FIRST_ROW = `(() => {
  const top = document.querySelector("tbody tr")?.getBoundingClientRect().top;
  const header = document.querySelector("header").getBoundingClientRect().bottom;
  return { isBelowHeader: top >= header && top < innerHeight, focused: document.activeElement.innerText };
})()`;

/** Why an active key is refused. */
const USED_UP = { code: "quota_exceeded", message: "It has used up a quota.", since: null };

describe.runIf(hasBrowser)("the way back to a list", () => {
  const suite = useBrowserSuite();

  it("leads to the same row with the same filters, which a new key takes over", async () => {
    const at = await shop(suite.instance);
    await suite.instance.call(at.owner.session, "POST /v1/projects", { name: "Second", slug: "second" });
    const { project_id, tenant_id } = at;
    for (let n = 1; n <= 12; n++)
      await suite.instance.call(at.owner.session, "POST /v1/keys", {
        project_id,
        tenant_id,
        env: "live",
        name: `Key ${n}`,
      });
    const filters = `keys?project=${project_id}&tenant=${tenant_id}`;
    await using g = await signedIn(suite.browser, suite.instance, at, {
      page: filters,
      viewport: { width: 1280, height: 420 },
    });
    const { page } = g;
    await page.keyboard.press("Control+k");
    await dialog(page, "Command palette").waitFor();
    await expect.poll(() => page.evaluate(IS_BELOW_HEADER)).toBe(true);
    await page.keyboard.press("Escape");

    await button(page, "Create key").click();
    const create = dialog(page, "Create key");
    await expect.poll(() => create.getByLabel("Project", { exact: true }).inputValue()).toBe("Orders");
    await expect.poll(() => create.getByLabel("Tenant", { exact: true }).inputValue()).toBe("Globex");
    await page.keyboard.press("Escape");

    let known: object = { verdict: { admitted: false, reasons: [USED_UP] } };
    await page.route("**/v1/keys/*?include=*", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), ...known } });
    });
    const link = page.getByRole("link", { name: /^Key 1\b/ });
    await link.click();
    await page.getByRole("heading", { level: 1, name: "Key 1" }).waitFor();
    await page.getByText("Verifiers refuse it now.").waitFor();
    expect(await page.getByText("Requests with this key are allowed.").count()).toBe(0);
    known = { expires_at: "2026-01-01T00:00:00.000Z" };
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await page.getByText("Expired on").waitFor();
    await button(page, "Rotate").click();
    await page.getByRole("dialog").getByText("The old key has expired.").waitFor();
    await button(page, "Cancel").click();
    await expect
      .poll(() => page.getByRole("link", { name: "Keys", exact: true }).last().getAttribute("href"))
      .toContain(filters);
    await page.goBack();
    const isBackInRow = () => page.evaluate("scrollY > 0 && document.activeElement.innerText");
    await expect.poll(isBackInRow).toContain("Key 1");
    // Also after the record has been loaded again.
    await link.click();
    await page.getByRole("heading", { level: 1, name: "Key 1" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Key 1" }).waitFor();
    await page.goBack();
    await expect.poll(isBackInRow).toContain("Key 1");

    // A new page is shown from its first row, below the header, with the focus on it.
    await page.route("**/v1/keys?*", async (route) => {
      const url = route.request().url();
      const response = await route.fetch({ url: url.replace("&after=more", "") });
      const next_cursor = url.includes("&after=more") ? "last" : "more";
      await route.fulfill({ response, json: { ...(await response.json()), next_cursor } });
    });
    await g.show("keys");
    await expect.poll(() => button(page, "Next page").getAttribute("aria-disabled")).toBeNull();
    await button(page, "Next page").press("Enter");
    await expect.poll(() => page.url()).toContain("after=more");
    await expect
      .poll(() => page.evaluate(FIRST_ROW))
      .toEqual({
        isBelowHeader: true,
        focused: expect.stringContaining("Key 12"),
      });

    await page.reload(); // forgets the pages before
    await button(page, "First page").waitFor();
    await page.unroute("**/v1/keys?*");
    await g.show("keys?after=nope");
    await page.getByText("This could not be loaded.").waitFor();
    await button(page, "First page").click();
    await page.getByRole("link", { name: /^Key 12\b/ }).waitFor();

    await g.show(`projects?after=${project_id}`); // the page after the oldest
    await page.getByRole("heading", { name: "No more projects" }).waitFor();
    await button(page, "Create project").waitFor();
    await button(page, "First page").click();
    await page.getByRole("link", { name: "Second" }).waitFor();

    await g.show("keys/nope");
    await page.getByRole("heading", { level: 1, name: "Not found" }).waitFor();
    await g.expectClean();
  });

  it("keeps nothing of one person for the next in the same page", async () => {
    const at = await shop(suite.instance);
    const { email } = await memberOf(suite.instance, at, "member");
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "tenants?q=globex" });
    const { page } = g;
    await page.evaluate("globalThis.samePage = true");
    const back = page.locator("main").getByRole("link", { name: "Tenants", exact: true });
    await g.show(`tenants/${at.tenant_id}`);
    await g.at("Globex");
    await expect.poll(() => back.getAttribute("href")).toContain("tenants?q=globex");
    await g.open(`${suite.instance.url}/#/forgot`);
    await field(page, "Email").fill("private@example.com");
    // A login page in another tab, which has no session.
    const other = await page.context().newPage();
    await other.goto(`${suite.instance.url}/#/login`);
    await field(other, "Email").fill("private@example.com");
    await g.show("home");
    await button(page, "Account menu").click();
    await page.getByRole("menuitem", { name: "Log out" }).click();
    await g.at("Log in");
    await expect.poll(() => field(page, "Email").inputValue()).toBe("");
    await expect.poll(() => field(other, "Email").inputValue()).toBe("");

    await fillLogin(page, email, PASSWORD);
    await button(page, "Log in").click();
    await g.at("Home");
    await g.show(`tenants/${at.tenant_id}`);
    await g.at("Globex");
    await expect.poll(() => back.getAttribute("href")).not.toContain("?");
    await expect.poll(() => page.evaluate("globalThis.samePage")).toBe(true); // a new document would prove nothing
    await g.expectClean();
  });
});
