// The main flow by keyboard alone: log in, create a key and store it, revoke it, verify the audit log.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../harness/browser/browser.ts";
import { shop } from "../../harness/browser/dashboard.ts";
import { guest } from "../../harness/browser/pages.ts";
import { useBrowserSuite } from "../../harness/browser/suite.ts";
import { PASSWORD } from "../../harness/instances/people.ts";

const STOPS_MAX = 60;
const FOCUSED = `(({ labels, innerText, ariaLabel }) => ariaLabel ?? labels?.[0]?.innerText ?? innerText)(document.activeElement)`;

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

describe.runIf(hasBrowser)("the dashboard by keyboard alone", () => {
  const suite = useBrowserSuite();

  it("logs in, creates a key, revokes it and verifies the audit log", async () => {
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
});
