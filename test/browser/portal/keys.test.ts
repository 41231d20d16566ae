// Managing keys in the portal; the life of one is in life-of-a-key.test.ts.
import { describe, expect, it } from "vitest";
import { hasBrowser, visit } from "../../../harness/browser/browser.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { useBrowserSuite } from "../../../harness/browser/suite.ts";
import { vendorPage } from "../../../harness/browser/vendor-page.ts";

describe.runIf(hasBrowser)("<keyrack-portal> keys", () => {
  const suite = useBrowserSuite();

  it("shows what is left of the tenant's quotas as a meter with words", async () => {
    const workspace = await suite.instance.workspace();
    const quotas = [{ id: "calls", amount: 1000, refill: "none" }];
    await workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}`, { quotas });
    const key = await workspace.mint({ name: "First" });
    await workspace.call("sk_owner", "POST /v1/ratelimit/check", {
      project_id: workspace.project_id,
      env: "live",
      key_id: key.id,
      limits: [],
      quotas: true,
      cost: 250,
    });
    await using site = await vendorPage(suite.instance, workspace);
    await using v = await visit(suite.browser, site.origin);
    const list = v.page.getByRole("list", { name: "Quotas" });
    await list.getByText("750 of 1,000 left").waitFor();
    const meter = list.getByRole("meter", { name: "calls" });
    await expect.poll(() => meter.getAttribute("value")).toBe("750");
    await expect.poll(() => meter.getAttribute("max")).toBe("1000");
    await expectAccessible(v.page);
    const grants = `POST /v1/tenants/${workspace.tenant_id}/quotas/calls/grants`;
    expect((await workspace.call("sk_owner", grants, { env: "live", units: 500, reference: "more" })).status).toBe(201);
    await v.page.reload();
    await list.getByText("1,250 of 1,250 left").waitFor();
    expect(v.errors).toEqual([]);
  });

  it("works under a strict content policy with Trusted Types", async () => {
    const workspace = await suite.instance.workspace();
    await workspace.mint({ name: "First" });
    await using site = await vendorPage(suite.instance, workspace, { strict: true });
    await using v = await visit(suite.browser, site.origin);
    const { page } = v;
    await page.getByRole("button", { name: "Usage: First" }).click();
    await page.getByText("No requests in the last 30 days.").waitFor();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("dialog").waitFor();
    const frame = "document.querySelector('keyrack-portal').shadowRoot.querySelector('.frame')";
    await expect.poll(() => page.evaluate(`getComputedStyle(${frame}).borderTopLeftRadius`)).toBe("14px");
    await expect.poll(() => page.evaluate("window.violations")).toEqual([]);
    expect(v.errors).toEqual([]);
  });

  it("offers only what the token grants", async () => {
    const workspace = await suite.instance.workspace();
    const expires_at = new Date(suite.instance.clock.now() + 2 * 3_600_000).toISOString();
    await workspace.mint({ name: "Mine", scopes: ["orders:read"], expires_at });
    await workspace.mint({ name: "Wider", scopes: ["admin"] });
    await using site = await vendorPage(suite.instance, workspace);
    await using v = await visit(suite.browser, site.origin);
    await v.page.getByRole("button", { name: "Rotate: Mine" }).click();
    const overlap = v.page.getByLabel("Keep the old key working for");
    const choices = [/^0 hours/, /^1 hour$/, /^Until it expires, /].map((text) => expect.stringMatching(text));
    await expect.poll(() => overlap.locator("option").allInnerTexts()).toEqual(choices); // not beyond its expiry
    await expect.poll(() => overlap.locator("option:checked").innerText()).toMatch(/^Until it expires/);
    await v.page.keyboard.press("Escape");
    expect(await v.page.getByRole("button", { name: "Rotate: Wider" }).count()).toBe(0);
    await expect.poll(() => v.page.getByRole("button", { name: "Revoke: Wider" }).count()).toBe(1);
    site.want.scopes = ["keys:read"];
    await v.page.reload();
    await v.page.getByRole("heading", { name: "Mine" }).waitFor();
    expect(await v.page.getByRole("button", { name: /Create|Rotate|Revoke/ }).count()).toBe(0);
    site.want.scopes = ["keys:write"];
    await v.page.reload();
    await v.page.getByText("You can create keys here, but not see existing ones.").waitFor();
    site.want.scopes = [];
    await v.page.reload();
    await v.page.getByText("You are not allowed to do this.").waitFor();
  });

  it("shows a rejection inside the dialog and keeps the input", async () => {
    const workspace = await suite.instance.workspace();
    for (let i = 0; i < 100; i++) await workspace.mint();
    await using site = await vendorPage(suite.instance, workspace);
    await using v = await visit(suite.browser, site.origin);
    await v.page.getByRole("button", { name: "Create key" }).click();
    await v.page.getByRole("textbox", { name: /^Name/ }).fill("One too many");
    await v.page.keyboard.press("Enter");
    await v.page.getByText(/^You have reached your limit of active keys\./).waitFor();
    await expect.poll(() => v.page.getByRole("textbox", { name: /^Name/ }).inputValue()).toBe("One too many");
    await v.page.keyboard.press("Escape");
    await v.page.getByRole("dialog").waitFor({ state: "detached" });
  });

  it("creates one key when the first answer was lost, and shows the newer of two answers", async () => {
    const workspace = await suite.instance.workspace();
    await workspace.mint({ name: "Used" });
    await using site = await vendorPage(suite.instance, workspace);
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
    const { body } = await workspace.call("sk_owner", "GET /v1/keys?env=live");
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
    await expect.poll(() => page.getByText("No requests in the last 30 days.").count()).toBe(1);
  });

  it("sends Idempotency-Key only to a server that says it accepts it", async () => {
    const workspace = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, workspace);
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
    const workspace = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, workspace, { attributes: 'locale="DE-ch"' });
    await using v = await visit(suite.browser, site.origin);
    await v.page.getByText("Noch keine Schlüssel").waitFor();
    await v.page.evaluate(`document.querySelector("keyrack-portal").strings = { empty: "Gähnende Leere" }`);
    await v.page.getByText("Gähnende Leere").waitFor();
    await expect.poll(() => v.page.getByText("Noch keine Schlüssel").count()).toBe(0);
  });

  it("shows the keys page by page, and acts on those of a later one", async () => {
    const workspace = await suite.instance.workspace();
    for (const name of ["First", "Second", "Third"]) {
      suite.instance.clock.advance(1);
      await workspace.mint({ name });
    }
    await using site = await vendorPage(suite.instance, workspace);
    await using v = await visit(suite.browser, "about:blank");
    const { page } = v;
    await page.route("**/v1/embed/keys?*", (route) =>
      route.continue({ url: route.request().url().replace("limit=100", "limit=2") }),
    );
    await page.goto(site.origin);
    await page.getByRole("heading", { name: "Third" }).waitFor();
    expect(await page.getByRole("heading", { name: "First" }).count()).toBe(0);
    // The sentence of 0.1 is no name for the button.
    await page.evaluate(`document.querySelector("keyrack-portal").strings = { more: "Only the newest are shown." }`);
    await page.getByRole("button", { name: "Show more keys" }).click();
    await page.getByRole("heading", { name: "First" }).waitFor();
    const focused = "document.querySelector('keyrack-portal').shadowRoot.activeElement?.innerText";
    await expect.poll(() => page.evaluate(focused)).toBe("First");
    await expect.poll(() => page.getByRole("button", { name: "Show more keys" }).count()).toBe(0);
    await page.getByRole("button", { name: "Revoke: First" }).click();
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page.getByRole("heading", { name: "First", exact: true }).waitFor({ state: "detached" });
    await expect.poll(() => page.getByRole("heading", { name: "Second" }).count()).toBe(1);
    expect(v.errors).toEqual([]);
  });

  it("says in the dialog what to press where the browser has no clipboard", async () => {
    const workspace = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, workspace);
    await using v = await visit(suite.browser, "about:blank");
    const { page } = v;
    await page.addInitScript("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
    await page.goto(site.origin);
    await page.getByRole("button", { name: "Create key" }).click();
    const shown = page.getByRole("dialog");
    await shown.getByRole("button", { name: "Create key" }).click();
    await shown.getByRole("status").getByText("Key created.").waitFor({ state: "attached" });
    await shown.getByRole("button", { name: "Copy" }).click();
    await shown.getByRole("button", { name: "Press Ctrl+C or ⌘C to copy" }).waitFor();
    await shown.getByRole("status").getByText("Press Ctrl+C or ⌘C to copy").waitFor({ state: "attached" });
    expect(v.errors).toEqual([]);
  });
});
