// Keyboard use, axe rules and narrow windows in the portal. KEYRACK_TEST_SCREENSHOTS names a folder for pictures.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser, visit } from "../../../harness/browser/browser.ts";
import { expectAccessible, expectAccessibleInLooks, setLook } from "../../../harness/browser/pages.ts";
import { useBrowserSuite } from "../../../harness/browser/suite.ts";
import { vendorPage } from "../../../harness/browser/vendor-page.ts";
import type { TestInstance, Workspace } from "../../../harness/instances/test-instance.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

const SHOTS = process.env.KEYRACK_TEST_SCREENSHOTS;

// Colours and layout are independent: each scheme and each width once, all combinations for screenshots.
const WIDE = { width: 1100, height: 900 };
const PHONE = { width: 375, height: 812 };
const LOOKS = [
  ["light-wide", { colorScheme: "light", viewport: WIDE }],
  ["dark-phone", { colorScheme: "dark", viewport: PHONE }],
  ["light-phone", { colorScheme: "light", viewport: PHONE }],
  ["dark-wide", { colorScheme: "dark", viewport: WIDE }],
] as const;

describe.runIf(hasBrowser)("<keyrack-portal> accessibility", () => {
  const suite = useBrowserSuite();

  it("can be used by keyboard alone, and focus returns to where it was", async () => {
    const workspace = await suite.instance.workspace();
    await workspace.mint({ name: "Kept" });
    await using site = await vendorPage(suite.instance, workspace);
    await using v = await visit(suite.browser, site.origin);
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

  it("has no accessibility violation and no horizontal scrolling, wide and light or narrow and dark", async () => {
    const workspace = await suite.instance.workspace();
    await seedStates(suite.instance, workspace);
    await using site = await vendorPage(suite.instance, workspace, { env: "live" });
    await using v = await visit(suite.browser, site.origin);
    const { page } = v;
    await page.getByLabel("Show revoked keys").check();
    await page.getByText("the laptop was stolen").waitFor();
    await page.getByRole("button", { name: "Usage: Billing server" }).click();
    await page.getByText(/requests, .* errors/).waitFor();
    await page.locator("svg.chart[role=img]").waitFor();
    await expectLooks(page, "portal");
    await page.getByRole("button", { name: "Last 90 days" }).click();
    await page.getByText(/in the last 90 days/).waitFor();
    await page.getByText("Show as table").click();
    await expectLooks(page);
    // Close the table: axe would check its ninety rows again behind each of four dialogs.
    await page.getByRole("button", { name: "Usage: Billing server" }).click();
    await page.locator("svg.chart[role=img]").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Create key" }).click();
    await expectLooks(page, "portal-create");
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    await page.getByRole("textbox", { name: "Your key" }).waitFor();
    await expectLooks(page, "portal-shown");
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByRole("button", { name: "Rotate: CI" }).click();
    await expectLooks(page);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Revoke: CI" }).first().click();
    await expectLooks(page, "portal-revoke");
  });

  it("has no accessibility violation when empty, in test mode or ended, and fits 320 pixels", async () => {
    const workspace = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, workspace, { env: "test" });
    await using v = await visit(suite.browser, site.origin, { viewport: { width: 320, height: 640 } });
    await v.page.getByText("These keys work in the test environment only.").waitFor();
    await expectAccessible(v.page);
    await shoot(v.page, "portal-empty-test-phone");
    site.open = false;
    await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/embed_tokens/revoke`);
    await v.page.getByLabel("Show revoked keys").click();
    await v.page.getByText("Your access to this page has ended.").waitFor();
    await expectAccessible(v.page);
    await shoot(v.page, "portal-ended-phone");
  });
});

/** Checks the page with axe, wide and light or narrow and dark. */
async function expectLooks(page: Page, shot = ""): Promise<void> {
  await expectAccessibleInLooks(page, [LOOKS[0][1], LOOKS[1][1]]);
  if (!SHOTS || !shot) return;
  for (const [look, options] of LOOKS) {
    await setLook(page, options);
    await shoot(page, `${shot}-${look}`);
  }
}

async function shoot(page: Page, shot: string): Promise<void> {
  if (!SHOTS) return;
  mkdirSync(SHOTS, { recursive: true });
  await page.mouse.move(0, 0);
  const whole = (await page.getByRole("dialog").count()) === 0;
  await page.screenshot({ path: join(SHOTS, `${shot}.png`), fullPage: whole, animations: "disabled" });
}

/** Creates a key in each state. */
async function seedStates(instance: TestInstance, workspace: Workspace): Promise<void> {
  await workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}`, { name: "Northwind Traders" });
  await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { name: "Orders API" });
  const now = instance.clock.now();
  const revoked = await workspace.mint({ name: "Old laptop", scopes: ["orders:read"] });
  await workspace.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, { reason: "the laptop was stolen" });
  const expired = await workspace.mint({ name: "Trial" });
  await instance.sql(
    `update api_keys set expires_at = ${now - DAY_MS}, created_at = ${now - 90 * DAY_MS} where id = '${expired.id}'`,
  );
  const leaked = await workspace.mint({ name: "Staging", scopes: ["orders:read"] });
  await instance.sql(
    `update api_keys set quarantined_at = ${now}, expires_at = ${now + 3_600_000}, last_used_at = ${now} where id = '${leaked.id}'`,
  );
  const ci = await workspace.mint({ name: "CI", scopes: ["orders:read"] });
  await workspace.call("sk_owner", `POST /v1/keys/${ci.id}/rotate`, { overlap_hours: 72 });
  const main = await workspace.mint({ name: "Billing server", scopes: ["orders:read", "orders:write"] });
  await instance.sql(`update api_keys set last_used_at = ${now - 60_000} where id = '${main.id}'`);
  await seedUsage(instance, workspace.id, main.id);
}

/** Ninety days of usage, as ingest would have stored it. */
async function seedUsage(instance: TestInstance, workspace_id: string, key_id: string): Promise<void> {
  const today = Math.floor(instance.clock.now() / DAY_MS);
  const rows = Array.from({ length: 90 }, (_none, i) => {
    const day = today - 89 + i;
    const busy = [0, 6].includes(new Date(day * DAY_MS).getUTCDay()) ? 0.25 : 1;
    const requests = Math.round((900 + 420 * Math.sin(i / 4) + ((i * 37) % 11) * 40) * busy);
    return `('${workspace_id}', '${key_id}', ${day}, ${requests}, ${Math.round(requests * (i % 9 === 4 ? 0.22 : 0.03))})`;
  });
  await instance.sql(`insert into usage_days (workspace_id, key_id, day, requests, errors) values ${rows.join(", ")}`);
}
