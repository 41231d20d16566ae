// Managing keys in the portal, on a page of another origin under a strict content policy.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser, visit } from "../../../harness/browser/browser.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { useBrowserSuite } from "../../../harness/browser/suite.ts";
import { vendorPage } from "../../../harness/browser/vendor-page.ts";

describe.runIf(hasBrowser)("<keyrack-portal> keys", () => {
  const suite = useBrowserSuite();

  it("creates, copies, rotates and revokes a key", async () => {
    const w = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, w);
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
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(key);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    expect(await shown.inputValue()).toBe(key); // Escape does not lose the only copy
    await page.getByRole("button", { name: "I have saved it" }).click();
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
    expect(await page.getByRole("button", { name: "Rotate: Billing server" }).count()).toBe(1);

    await page.getByRole("button", { name: "Revoke: Billing server" }).first().click();
    await page.getByText("This cannot be undone.").waitFor();
    await page.getByRole("textbox", { name: "Reason" }).fill("moved to a new server");
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await page.getByRole("heading", { level: 3 }).count()).toBe(1);
    await page.getByLabel("Show revoked keys").check();
    await page.getByText("moved to a new server").waitFor();
    expect(await w.actions()).toEqual(["workspace.updated", "api_key.created", "api_key.rotated", "api_key.revoked"]);
    expect(await page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]")).toEqual(["", 0, 0]);
    expect(await v.context.cookies()).toEqual([]);
    expect(v.errors).toEqual([]);
  });

  it("shows what is left of the tenant's quotas as a meter with words", async () => {
    const w = await suite.instance.workspace();
    const quotas = [{ id: "calls", amount: 1000, refill: "none" }];
    await w.call("sk_owner", `PATCH /v1/tenants/${w.tenant_id}`, { quotas });
    const key = await w.mint({ name: "First" });
    await w.call("sk_owner", "POST /v1/ratelimit/check", {
      project_id: w.project_id,
      env: "live",
      key_id: key.id,
      limits: [],
      quotas: true,
      cost: 250,
    });
    await using site = await vendorPage(suite.instance, w);
    await using v = await visit(suite.browser, site.origin);
    const list = v.page.getByRole("list", { name: "Quotas" });
    await list.getByText("750 of 1,000 left").waitFor();
    const meter = list.getByRole("meter", { name: "calls" });
    expect([await meter.getAttribute("value"), await meter.getAttribute("max")]).toEqual(["750", "1000"]);
    await expectAccessible(v.page);
    expect(v.errors).toEqual([]);
  });

  it("works under a strict content policy with Trusted Types", async () => {
    const w = await suite.instance.workspace();
    await w.mint({ name: "First" });
    await using site = await vendorPage(suite.instance, w, { strict: true });
    await using v = await visit(suite.browser, site.origin);
    const { page } = v;
    await page.getByRole("button", { name: "Usage: First" }).click();
    await page.getByText("No requests in the last 30 days.").waitFor();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("dialog").waitFor();
    const frame = "document.querySelector('keyrack-portal').shadowRoot.querySelector('.frame')";
    expect(await page.evaluate(`getComputedStyle(${frame}).borderTopLeftRadius`)).toBe("14px");
    expect(await page.evaluate("window.violations")).toEqual([]);
    expect(v.errors).toEqual([]);
  });

  it("offers only what the token grants", async () => {
    const w = await suite.instance.workspace();
    await w.mint({ name: "Mine", scopes: ["orders:read"] });
    await w.mint({ name: "Wider", scopes: ["admin"] });
    await using site = await vendorPage(suite.instance, w);
    await using v = await visit(suite.browser, site.origin);
    await v.page.getByRole("button", { name: "Rotate: Mine" }).waitFor();
    expect(await v.page.getByRole("button", { name: "Rotate: Wider" }).count()).toBe(0);
    expect(await v.page.getByRole("button", { name: "Revoke: Wider" }).count()).toBe(1);
    site.want.scopes = ["keys:read"];
    await v.page.reload();
    await v.page.getByRole("heading", { name: "Mine" }).waitFor();
    expect(await v.page.getByRole("button", { name: /Create|Rotate|Revoke/ }).count()).toBe(0);
    site.want.scopes = ["keys:write"];
    await v.page.reload();
    await v.page.getByText("You can create keys here, but not see existing ones.").waitFor();
  });

  it("shows a rejection inside the dialog and keeps the input", async () => {
    const w = await suite.instance.workspace();
    for (let i = 0; i < 100; i++) await w.mint();
    await using site = await vendorPage(suite.instance, w);
    await using v = await visit(suite.browser, site.origin);
    await v.page.getByRole("button", { name: "Create key" }).click();
    await v.page.getByRole("textbox", { name: /^Name/ }).fill("One too many");
    await v.page.keyboard.press("Enter");
    await v.page.getByText("This tenant has reached its limit of active keys.").waitFor();
    expect(await v.page.getByRole("textbox", { name: /^Name/ }).inputValue()).toBe("One too many");
    await v.page.keyboard.press("Escape");
    await v.page.getByRole("dialog").waitFor({ state: "detached" });
  });

  it("creates one key when the first answer was lost, and shows the newer of two answers", async () => {
    const w = await suite.instance.workspace();
    await w.mint({ name: "Used" });
    await using site = await vendorPage(suite.instance, w);
    await using v = await visit(suite.browser, site.origin);
    const { page } = v;
    let sent = 0;
    await page.route("**/v1/embed/keys", async (route) => {
      if (route.request().method() !== "POST") return route.continue();
      const response = await route.fetch();
      return sent++ === 0 ? route.abort("connectionreset") : route.fulfill({ response });
    });
    await page.getByRole("button", { name: "Create key" }).click();
    const create = page.getByRole("dialog").getByRole("button", { name: "Create key" });
    await create.click();
    await page.getByRole("dialog").getByText("Cannot reach the server.").waitFor();
    await create.click();
    await page.getByRole("button", { name: "I have saved it" }).click();
    const { body } = await w.call("sk_owner", "GET /v1/keys?env=live");
    expect([body.data.length, sent]).toEqual([2, 2]);

    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    await page.route("**/usage?days=90", (route) => held.then(() => route.continue()));
    await page.getByRole("button", { name: "Usage: Used" }).click();
    await page.getByRole("button", { name: "Last 90 days" }).click();
    await page.getByRole("button", { name: "Last 30 days" }).click();
    await page.getByText("No requests in the last 30 days.").waitFor();
    const answered = page.waitForResponse("**/usage?days=90");
    release();
    await (await answered).finished();
    expect(await page.getByText("No requests in the last 30 days.").count()).toBe(1);
  });

  it("sends Idempotency-Key only to a server that says it accepts it", async () => {
    const w = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, w);
    await using v = await visit(suite.browser, site.origin);
    const { page } = v;
    const sendsKey = async (): Promise<boolean> => {
      const posted = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/keys"));
      await page.getByRole("button", { name: "Create key" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
      const headers = await (await posted).allHeaders();
      await page.getByRole("button", { name: "I have saved it" }).click();
      return "idempotency-key" in headers;
    };
    expect(await sendsKey()).toBe(true);
    await page.route("**/v1/embed/session", async (route) => {
      const response = await route.fetch();
      const { accepts_idempotency_key: _, ...older } = await response.json();
      return route.fulfill({ response, json: older });
    });
    await page.evaluate(`document.querySelector("keyrack-portal").reload()`);
    expect(await sendsKey()).toBe(false);
  });

  it("uses the page's language and the page's own texts", async () => {
    const w = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, w, { attributes: 'locale="de-CH"' });
    await using v = await visit(suite.browser, site.origin);
    await v.page.getByText("Noch keine Schlüssel").waitFor();
    await v.page.evaluate(`document.querySelector("keyrack-portal").strings = { empty: "Gähnende Leere" }`);
    expect(await v.page.getByText("Gähnende Leere").isVisible()).toBe(true);
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
