// The life of a key in the portal.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser, visit } from "../../../harness/browser/browser.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { useBrowserSuite } from "../../../harness/browser/suite.ts";
import { vendorPage } from "../../../harness/browser/vendor-page.ts";

describe.runIf(hasBrowser)("in a browser", () => {
  const suite = useBrowserSuite();

  it("<keyrack-portal>, on a page of another origin under a strict content policy, creates, copies, rotates and revokes a key", async () => {
    const workspace = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, workspace);
    const permissions = ["clipboard-read", "clipboard-write"];
    await using v = await visit(suite.browser, site.origin, { permissions });
    const { page } = v;
    await page.getByText("No keys yet").waitFor();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("textbox", { name: /^Name/ }).fill("Billing server");
    await page.getByRole("checkbox", { name: "orders:read" }).check();
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    const shown = page.getByRole("textbox", { name: "Your key" });
    await shown.waitFor();
    const key = await shown.inputValue();
    expect(key).toMatch(/^kr_live_[\w-]{40}$/);
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toBe(key);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await expect.poll(() => shown.inputValue()).toBe(key); // Escape does not lose the only copy
    await page.getByRole("button", { name: "I have saved it" }).click();
    await shown.waitFor({ state: "detached" });
    await page.getByRole("heading", { name: "Billing server" }).waitFor();
    expect((await page.locator("body").innerHTML()).includes(key)).toBe(false);
    expect(await allText(page)).not.toContain(key);
    await page.getByText(`${key.slice(0, 14)}…`).waitFor();

    await page.getByRole("button", { name: "Rotate: Billing server" }).click();
    await page.getByLabel("Keep the old key working for").selectOption("1 hour");
    await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
    const next = await shown.inputValue();
    expect(next).not.toBe(key);
    await page.getByText(/The old key kr_live_.{6}… works until/).waitFor();
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByText("Being replaced").waitFor();
    await expect.poll(() => page.getByRole("button", { name: "Rotate: Billing server" }).count()).toBe(1);

    await page.getByRole("button", { name: "Revoke: Billing server" }).first().click();
    await page.getByText("This cannot be undone.").waitFor();
    await page.getByRole("textbox", { name: "Reason" }).fill("moved to a new server");
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expect.poll(() => page.getByRole("heading", { level: 3 }).count()).toBe(1);
    await page.getByLabel("Show revoked keys").check();
    await page.getByText("moved to a new server").waitFor();
    await expectAccessible(page);
    expect(await workspace.actions()).toEqual([
      "workspace.updated",
      "api_key.created",
      "api_key.rotated",
      "api_key.revoked",
    ]);
    await expect
      .poll(() => page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]"))
      .toEqual(["", 0, 0]);
    expect(await v.context.cookies()).toEqual([]);
    expect(v.errors).toEqual([]);
  });
});

/** Every text in the portal's shadow tree, including the values of fields. */
function allText(page: Page): Promise<string> {
  return page.evaluate(`(() => {
    const root = document.querySelector("keyrack-portal").shadowRoot;
    const values = [...root.querySelectorAll("input")].map((input) => input.value);
    return [root.textContent, ...values, document.documentElement.outerHTML].join(" ");
  })()`);
}
