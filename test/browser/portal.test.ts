// The portal in a real browser, on a page of another origin than Keyrack's, under a strict content policy.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasBrowser, launchBrowser, visit } from "../../harness/browser/browser.ts";
import { expectAccessible } from "../../harness/browser/pages.ts";
import { testInstance, type TestInstance } from "../../harness/instances/test-instance.ts";
import { vendorPage } from "../../harness/browser/vendor-page.ts";

const SHOTS = process.env.KEYRACK_TEST_SCREENSHOTS;
const DAY_MS = 86_400_000;

// axe walks the whole page several times a test; on a busy machine that takes its time.
describe.runIf(hasBrowser)("<keyrack-portal> on a page of another origin", { timeout: 120_000, retry: 1 }, () => {
  let browser: Browser;
  let r: TestInstance;
  beforeAll(async () => {
    [browser, r] = await Promise.all([launchBrowser(), testInstance("sqlite")]);
  });
  afterAll(async () => {
    await browser?.close();
    await r?.[Symbol.asyncDispose]();
  });

  it("carries a key through its whole life: created, copied, seen, rotated, revoked", async () => {
    const w = await r.workspace();
    await using site = await vendorPage(r, w);
    const permissions = ["clipboard-read", "clipboard-write"];
    await using v = await visit(browser, site.origin, { permissions });
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
    expect(await shown.inputValue()).toBe(key); // the only copy is not lost by a key press
    await page.getByRole("button", { name: "I have stored it" }).click();
    await page.getByRole("heading", { name: "Billing server" }).waitFor();
    expect(await page.locator("body").innerHTML()).not.toContain(key);
    expect(await everything(page)).not.toContain(key);
    await page.getByText(`${key.slice(0, 14)}…`).waitFor();

    await page.getByRole("button", { name: "Rotate: Billing server" }).click();
    await page.getByLabel("Keep the old key working for").selectOption("1 hour");
    await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
    const next = await shown.inputValue();
    expect(next).not.toBe(key);
    await page.getByText(/The old key kr_live_.{6}… works until/).waitFor();
    await page.getByRole("button", { name: "I have stored it" }).click();
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

  it("works where nothing but the page's own scripts and sheets is allowed and Trusted Types are required", async () => {
    const w = await r.workspace();
    await w.mint({ name: "First" });
    await using site = await vendorPage(r, w, { strict: true });
    await using v = await visit(browser, site.origin);
    const { page } = v;
    await page.getByRole("button", { name: "Usage: First" }).click();
    await page.getByText("No requests in the last 30 days.").waitFor();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("dialog").waitFor();
    const frame = page.locator("keyrack-portal").getByRole("region", { name: "API keys" });
    expect(await frame.evaluate("(node) => getComputedStyle(node).borderTopLeftRadius")).not.toBe("0px");
    expect(await page.evaluate("window.violations")).toEqual([]);
    expect(v.errors).toEqual([]);
  });

  it("asks for a new token at refresh_after and goes on without a word", async () => {
    const w = await r.workspace();
    await using site = await vendorPage(r, w);
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.clock.install();
    await page.goto(site.origin);
    await page.getByText("No keys yet").waitFor();
    expect(site.minted).toBe(1);
    // The page's clock also runs by itself, so the two steps leave room for a slow machine.
    r.clock.advance(200_000);
    await page.clock.fastForward(200_000);
    expect(site.minted).toBe(1);
    const renewed = page.waitForResponse(`${site.origin}/embed-token`);
    r.clock.advance(40_500);
    await page.clock.fastForward(40_500);
    await renewed;
    expect(site.minted).toBe(2);
    r.clock.advance(200_000); // the first token has ended by now
    const listed = page.waitForResponse(/include_revoked=true/);
    await page.getByLabel("Show revoked keys").check();
    expect((await listed).status()).toBe(200);
    expect(site.minted).toBe(2);
    await context.close();
  });

  it("says when a token that the page set itself is due, and takes the next one", async () => {
    const w = await r.workspace();
    await w.mint({ name: "Kept" });
    await using site = await vendorPage(r, w);
    const mint = async (): Promise<string> =>
      (await w.call("sk_owner", "POST /v1/embed_tokens", site.want)).body.token as string;
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.clock.install();
    await page.goto(site.origin);
    await page.evaluate(`(() => {
      document.querySelector("keyrack-portal").remove();
      const portal = document.createElement("keyrack-portal");
      Object.assign(portal, { baseUrl: ${JSON.stringify(r.url)}, token: ${JSON.stringify(await mint())} });
      portal.addEventListener("keyrack-token-expiring", () => { document.title = "due"; });
      document.body.append(portal);
    })()`);
    await page.getByRole("heading", { name: "Kept" }).waitFor();
    await page.clock.fastForward(240_500);
    await expect.poll(() => page.title()).toBe("due");
    r.clock.advance(300_000);
    await page.getByLabel("Show revoked keys").click();
    await page.getByText("Your access to this page has ended.").waitFor();
    await page.evaluate(`document.querySelector("keyrack-portal").token = ${JSON.stringify(await mint())}`);
    await page.getByRole("heading", { name: "Kept" }).waitFor();
    expect(await page.locator("keyrack-portal").getAttribute("token")).toBeNull();
    await context.close();
  });

  it("never takes a new key away before it is stored, even when access ends meanwhile", async () => {
    const w = await r.workspace();
    await using site = await vendorPage(r, w);
    await using v = await visit(browser, site.origin);
    const { page } = v;
    await page.getByRole("button", { name: "Create key" }).click();
    await page.route("**/v1/embed/keys?*", (route) => route.fulfill({ status: 401, headers: corsOf(site.origin) }));
    site.open = false;
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    await page.getByText("Your access to this page has ended.").waitFor({ state: "attached" });
    expect(await page.getByRole("textbox", { name: "Your key" }).inputValue()).toMatch(/^kr_live_/);
    await page.getByRole("button", { name: "I have stored it" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
  });

  it("asks once more after a refusal, and goes on when the page still vouches for the person", async () => {
    const w = await r.workspace();
    await w.mint({ name: "Kept" });
    await using site = await vendorPage(r, w);
    await using v = await visit(browser, site.origin);
    await v.page.getByRole("heading", { name: "Kept" }).waitFor();
    await w.call("sk_owner", `POST /v1/tenants/${w.tenant_id}/embed_tokens/revoke`);
    await v.page.getByLabel("Show revoked keys").check();
    await expect.poll(() => site.minted).toBe(2);
    await v.page.getByRole("heading", { name: "Kept" }).waitFor();
    expect(await v.page.getByRole("alert").count()).toBe(0);
  });

  it("ends at the next action after a revocation, says so, and shows nothing any more", async () => {
    const w = await r.workspace();
    await w.mint({ name: "Secret project" });
    await using site = await vendorPage(r, w);
    await using v = await visit(browser, site.origin);
    const { page } = v;
    await page.getByRole("button", { name: "Revoke: Secret project" }).click();
    await w.call("sk_owner", `POST /v1/tenants/${w.tenant_id}/embed_tokens/revoke`);
    site.open = false;
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page.getByText("Your access to this page has ended.").waitFor();
    expect(await page.getByRole("heading", { name: "Secret project" }).count()).toBe(0);
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(await w.actions()).not.toContain("api_key.revoked");
    site.open = true;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "Secret project" }).waitFor();
  });

  it("is refused on a page whose origin nobody registered, and on one the token is not for", async () => {
    const w = await r.workspace();
    await w.mint({ name: "Hidden" });
    await using site = await vendorPage(r, w);
    await using stranger = await vendorPage(r, w, { register: false });
    await using v = await visit(browser, stranger.origin);
    await v.page.getByText("The key service cannot be reached.").waitFor();
    await w.call("sk_owner", "PATCH /v1/workspace", { embed_origins: [site.origin, stranger.origin] });
    stranger.want.origins = [site.origin];
    await v.page.reload();
    await v.page.getByText("This page is not allowed to manage keys.").waitFor();
    expect(await v.page.getByRole("heading", { name: "Hidden" }).count()).toBe(0);
  });

  it("says when the browser is offline and comes back by itself", async () => {
    const w = await r.workspace();
    await w.mint({ name: "Kept" });
    await using site = await vendorPage(r, w);
    await using v = await visit(browser, site.origin);
    await v.page.getByRole("heading", { name: "Kept" }).waitFor();
    await v.context.setOffline(true);
    await v.page.getByText("You are offline.").waitFor();
    await v.context.setOffline(false);
    await v.page.getByText("You are offline.").waitFor({ state: "detached" });
    expect(await v.page.getByRole("heading", { name: "Kept" }).isVisible()).toBe(true);
  });

  it("offers only what the token grants", async () => {
    const w = await r.workspace();
    await w.mint({ name: "Mine", scopes: ["orders:read"] });
    await w.mint({ name: "Wider", scopes: ["admin"] });
    await using site = await vendorPage(r, w);
    await using v = await visit(browser, site.origin);
    await v.page.getByRole("button", { name: "Rotate: Mine" }).waitFor();
    expect(await v.page.getByRole("button", { name: "Rotate: Wider" }).count()).toBe(0);
    expect(await v.page.getByRole("button", { name: "Revoke: Wider" }).count()).toBe(1);
    site.want.scopes = ["keys:read"];
    await v.page.reload();
    await v.page.getByRole("heading", { name: "Mine" }).waitFor();
    expect(await v.page.getByRole("button", { name: /Create|Rotate|Revoke/ }).count()).toBe(0);
    site.want.scopes = ["keys:write"];
    await v.page.reload();
    await v.page.getByText("You may create keys here, but not see the existing ones.").waitFor();
  });

  it("tells a refusal inside the dialog and keeps what was typed", async () => {
    const w = await r.workspace();
    for (let i = 0; i < 100; i++) await w.mint();
    await using site = await vendorPage(r, w);
    await using v = await visit(browser, site.origin);
    await v.page.getByRole("button", { name: "Create key" }).click();
    await v.page.getByRole("textbox", { name: /^Name/ }).fill("One too many");
    await v.page.keyboard.press("Enter");
    await v.page.getByText("This tenant has reached its limit of active keys.").waitFor();
    expect(await v.page.getByRole("textbox", { name: /^Name/ }).inputValue()).toBe("One too many");
    await v.page.keyboard.press("Escape");
    await v.page.getByRole("dialog").waitFor({ state: "detached" });
  });

  it("is used by keyboard alone, and focus comes back to where it was", async () => {
    const w = await r.workspace();
    await w.mint({ name: "Kept" });
    await using site = await vendorPage(r, w);
    await using v = await visit(browser, site.origin);
    const { page } = v;
    const focused = (): Promise<string> =>
      page.evaluate(`(() => {
        const at = document.querySelector("keyrack-portal").shadowRoot.activeElement;
        return at?.getAttribute("aria-label") ?? at?.textContent ?? "";
      })()`);
    await page.getByRole("heading", { name: "Kept" }).waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    await expect.poll(focused).toBe("Create key");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.type("Typed");
    await page.keyboard.press("Enter");
    await page.getByRole("textbox", { name: "Your key" }).waitFor();
    await expect.poll(focused).toBe("Copy");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expect.poll(focused).toBe("Create key");
    await page.getByRole("button", { name: "Usage: Kept" }).press("Enter");
    await page.getByText("No requests in the last 30 days.").waitFor();
    await expect.poll(focused).toBe("Usage: Kept");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expect.poll(focused).toBe("Rotate: Kept");
  });

  it("speaks the page's language and takes the page's own words", async () => {
    const w = await r.workspace();
    await using site = await vendorPage(r, w, { attributes: 'locale="de-CH"' });
    await using v = await visit(browser, site.origin);
    await v.page.getByText("Noch keine Schlüssel").waitFor();
    await v.page.evaluate(`document.querySelector("keyrack-portal").strings = { empty: "Gähnende Leere" }`);
    expect(await v.page.getByText("Gähnende Leere").isVisible()).toBe(true);
  });

  // Colours do not depend on the layout, nor the layout on colours: each of both once, unless pictures are taken.
  const LOOKS = [
    ["light", "wide"],
    ["dark", "phone"],
    ["light", "phone"],
    ["dark", "wide"],
  ] as const;
  const VIEWPORTS = { wide: { width: 1100, height: 900 }, phone: { width: 375, height: 812 } };
  for (const [colorScheme, size] of LOOKS.slice(0, SHOTS ? 4 : 2)) {
    const viewport = VIEWPORTS[size];
    it(`has no accessibility violation and no sideways scrolling: ${colorScheme}, ${size}`, async () => {
      const w = await r.workspace();
      await seedStates(r, w);
      await using site = await vendorPage(r, w, { env: "live" });
      await using v = await visit(browser, site.origin, { colorScheme, viewport, deviceScaleFactor: 1 });
      const { page } = v;
      await page.getByLabel("Show revoked keys").check();
      await page.getByText("the laptop was stolen").waitFor();
      await page.getByRole("button", { name: "Usage: Billing server" }).click();
      await page.getByText(/requests, .* errors/).waitFor();
      await page.locator("svg.chart[role=img]").waitFor();
      await expectLook(page, `portal-${colorScheme}-${size}`);
      await page.getByRole("button", { name: "Last 90 days" }).click();
      await page.getByText(/in the last 90 days/).waitFor();
      await page.getByText("Show as a table").click();
      await expectAccessible(page);
      // Looked at twice by now; behind each of four dialogs its ninety rows would take most of axe's time.
      await page.getByRole("button", { name: "Usage: Billing server" }).click();
      await page.locator("svg.chart[role=img]").waitFor({ state: "detached" });
      await page.getByRole("button", { name: "Create key" }).click();
      await expectLook(page, size === "wide" || colorScheme === "light" ? `portal-create-${colorScheme}-${size}` : "");
      await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
      await page.getByRole("textbox", { name: "Your key" }).waitFor();
      await expectLook(page, size === "wide" && colorScheme === "light" ? `portal-shown-${colorScheme}-${size}` : "");
      await page.getByRole("button", { name: "I have stored it" }).click();
      await page.getByRole("button", { name: "Rotate: CI" }).click();
      await expectAccessible(page);
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Revoke: CI" }).first().click();
      await expectLook(page, size === "wide" && colorScheme === "dark" ? `portal-revoke-${colorScheme}-${size}` : "");
    });
  }

  it("has no accessibility violation when empty, in test mode, or after its end; and fits 320 pixels", async () => {
    const w = await r.workspace();
    await using site = await vendorPage(r, w, { env: "test" });
    await using v = await visit(browser, site.origin, { viewport: { width: 320, height: 640 } });
    await v.page.getByText("These keys work in the test environment only.").waitFor();
    await expectLook(v.page, "portal-empty-test-phone");
    site.open = false;
    await w.call("sk_owner", `POST /v1/tenants/${w.tenant_id}/embed_tokens/revoke`);
    await v.page.getByLabel("Show revoked keys").click();
    await v.page.getByText("Your access to this page has ended.").waitFor();
    await expectLook(v.page, "portal-ended-phone");
  });
});

/** Every text in the portal's shadow tree, values of fields included. */
function everything(page: Page): Promise<string> {
  return page.evaluate(`(() => {
    const root = document.querySelector("keyrack-portal").shadowRoot;
    const values = [...root.querySelectorAll("input")].map((input) => input.value);
    return [root.textContent, ...values, document.documentElement.outerHTML].join(" ");
  })()`);
}

/** Holds the page against axe, and takes its picture where pictures are wanted. */
async function expectLook(page: Page, shot: string): Promise<void> {
  await expectAccessible(page);
  if (!SHOTS || !shot) return;
  mkdirSync(SHOTS, { recursive: true });
  await page.mouse.move(0, 0);
  const whole = (await page.getByRole("dialog").count()) === 0;
  await page.screenshot({ path: join(SHOTS, `${shot}.png`), fullPage: whole, animations: "disabled" });
}

/** A key in each state there is. */
async function seedStates(r: TestInstance, w: Awaited<ReturnType<TestInstance["workspace"]>>): Promise<void> {
  await w.call("sk_owner", `PATCH /v1/tenants/${w.tenant_id}`, { name: "Northwind Traders" });
  await w.call("sk_owner", `PATCH /v1/projects/${w.project_id}`, { name: "Orders API" });
  const now = r.clock.now();
  const revoked = await w.mint({ name: "Old laptop", scopes: ["orders:read"] });
  await w.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, { reason: "the laptop was stolen" });
  const expired = await w.mint({ name: "Trial" });
  await r.sql(
    `update api_keys set expires_at = ${now - DAY_MS}, created_at = ${now - 90 * DAY_MS} where id = '${expired.id}'`,
  );
  const leaked = await w.mint({ name: "Staging", scopes: ["orders:read"] });
  await r.sql(
    `update api_keys set quarantined_at = ${now}, expires_at = ${now + 3_600_000}, last_used_at = ${now} where id = '${leaked.id}'`,
  );
  const ci = await w.mint({ name: "CI", scopes: ["orders:read"] });
  await w.call("sk_owner", `POST /v1/keys/${ci.id}/rotate`, { overlap_hours: 72 });
  const main = await w.mint({ name: "Billing server", scopes: ["orders:read", "orders:write"] });
  await r.sql(`update api_keys set last_used_at = ${now - 60_000} where id = '${main.id}'`);
  await seedUsage(r, w.id, main.id);
}

function corsOf(origin: string): Record<string, string> {
  return { "access-control-allow-origin": origin };
}

/** Ninety days of a busy key, as ingest would have summed them up. */
async function seedUsage(r: TestInstance, workspace_id: string, key_id: string): Promise<void> {
  const today = Math.floor(r.clock.now() / DAY_MS);
  const rows = Array.from({ length: 90 }, (_none, i) => {
    const day = today - 89 + i;
    const busy = [0, 6].includes(new Date(day * DAY_MS).getUTCDay()) ? 0.25 : 1;
    const requests = Math.round((900 + 420 * Math.sin(i / 4) + ((i * 37) % 11) * 40) * busy);
    return `('${workspace_id}', '${key_id}', ${day}, ${requests}, ${Math.round(requests * (i % 9 === 4 ? 0.22 : 0.03))})`;
  });
  await r.sql(`insert into usage_days (workspace_id, key_id, day, requests, errors) values ${rows.join(", ")}`);
}
