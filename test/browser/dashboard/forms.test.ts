// Forms of the dashboard keep what was typed and change nothing else, whatever arrives or is chosen meanwhile.
import { describe, expect, it } from "vitest";
import { reportLeaks } from "../../../src/domain/leaks/leaks.ts";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { ownWorkspace, shop, signedIn, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { button, dialog, field, useBrowserSuite } from "../../../harness/browser/suite.ts";

/** Less than the interval at which the navigation asks for the figures. */
const UNPOLLED_MS = 30_000;

describe.runIf(hasBrowser)("forms in the dashboard", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("offers the fields of a key only when its project is known, and saves what was typed", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const scope_catalogue = [{ name: "orders:read", description: null, default: false }];
    await suite.instance.call(at.key, `PATCH /v1/projects/${project_id}`, { scope_catalogue });
    const scopes = ["orders:read", "legacy"];
    const made = await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", scopes });
    const g = await open(at, { page: "settings" });
    const { page } = g;
    const arrived = Promise.withResolvers<void>();
    await page.route("**/v1/projects?*", async (route) => {
      await arrived.promise;
      await route.continue();
    });
    await g.show(`keys/${made.body.id}`);
    await button(page, "Edit").click();
    const edit = dialog(page, "Edit key");
    await edit.locator(".skeleton").waitFor();
    expect(await edit.getByLabel(/^(Other s|S)copes/).count()).toBe(0);
    arrived.resolve();
    await edit.getByLabel(/^Other scopes/).fill("billing");
    await expect.poll(() => edit.getByLabel("orders:read").isChecked()).toBe(true);
    await button(page, "Save").click();
    await dialog(page, "Key saved").waitFor();
    await button(page, "Done").click();
    const saved = await suite.instance.call(at.key, `GET /v1/keys/${made.body.id}`);
    expect(saved.body.scopes).toEqual(["orders:read", "billing"]);
    await g.expectClean();
  });

  it("shows what the server warns of with a new key, and with what is saved, until the person is done", async () => {
    const at = await shop(suite.instance);
    const scope_catalogue = [{ name: "orders:read", description: null, default: false }];
    await suite.instance.call(at.key, `PATCH /v1/projects/${at.project_id}`, { scope_catalogue });
    const g = await open(at, { page: `keys?project=${at.project_id}&tenant=${at.tenant_id}&create=key` });
    const { page } = g;
    const create = dialog(page, "Create key");
    await create.getByLabel(/^Other scopes/).fill("orders:raed");
    await expect.poll(() => create.getByLabel("Tenant", { exact: true }).inputValue()).toBe("Globex");
    await create.getByRole("button", { name: "Create key" }).click();
    const unknown = (scope: string): string => `${scope}: is not in the project's scope catalogue.`;
    await dialog(page, "Save this key now").getByRole("listitem").getByText(unknown("orders:raed")).waitFor();
    await expectAccessible(page);
    await page.getByLabel("I have stored it").check();
    await button(page, "Done").click();
    await button(page, "Edit").click();
    const edit = dialog(page, "Edit key");
    await edit.getByLabel("orders:read").check();
    await edit.getByLabel(/^Other scopes/).fill("legacy");
    await button(page, "Save").click();
    const saved = dialog(page, "Key saved");
    await saved.getByRole("alert").getByText(unknown("legacy")).waitFor();
    await saved.getByText("No verifier is connected.").waitFor();
    await button(page, "Done").click();
    // Also where no node has to know of the change.
    const warnings = [{ path: "key_prefix", message: "2 of 3 live nodes do not get the keys" }];
    await page.route("**/v1/projects/*", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), warnings } });
    });
    await g.show(`projects/${at.project_id}`);
    await button(page, "Edit").click();
    await dialog(page, "Edit project").getByLabel("Name", { exact: true }).fill("Mails");
    await button(page, "Save").click();
    await dialog(page, "Project saved").getByText("key_prefix: 2 of 3 live nodes do not get the keys.").waitFor();
    await expectAccessible(page);
    await button(page, "Done").click();
    await g.at("Mails");
    await g.expectClean();
  });

  it("saves the field that was changed, and leaves what another admin has changed since", async () => {
    const at = await ownWorkspace(suite.instance);
    const g = await open(at, { page: "settings" });
    const { page } = g;
    await field(page, "Workspace name").fill("Renamed");
    await suite.instance.call(at.key, "PATCH /v1/workspace", { billing_email: "bills@example.com" });
    await button(page, "Save").click();
    await page.getByText("Workspace saved.").waitFor();
    await expect.poll(() => page.title()).toBe("Settings · Renamed · Keyrack");
    const { body } = await suite.instance.call(at.key, "GET /v1/workspace");
    expect(body).toMatchObject({ name: "Renamed", billing_email: "bills@example.com" });
    await expect.poll(() => page.getByLabel(/^Billing email/).inputValue()).toBe("bills@example.com");
    await g.expectClean();
  });

  it("counts a leaked key no longer once it is revoked", async () => {
    const at = await shop(suite.instance);
    const secret = await suite.instance.call(at.owner.session, "POST /v1/secret_keys", { env: "live", name: "CI" });
    const leak = { token: String(secret.body.key), type: "keyrack_secret_key", location: "https://git.example.com/a" };
    await reportLeaks({ services: suite.instance.app.services, actor: { kind: "scanner" } }, [leak]);
    const g = await open(at, { page: "home" });
    const { page } = g;
    const count = page.locator(".main-nav .nav-count");
    await count.waitFor();
    // In the menu of a phone at once: what waits for a page to load has no reason to wait there.
    await page.goto("about:blank");
    await page.setViewportSize({ width: 390, height: 780 });
    await page.clock.install();
    await g.show("plans");
    await g.at("Plans");
    await page.clock.pauseAt(Date.now() + 60_000);
    for (const _ of [1, 2]) {
      await button(page, "Menu").click();
      await dialog(page, "Menu").getByText("1 leaked key to replace").waitFor();
      await page.keyboard.press("Escape");
    }
    await page.clock.resume();
    await page.setViewportSize({ width: 1280, height: 780 });
    await page.route("**/v1/secret_keys/*/revoke", async (route) => {
      const response = await route.fetch();
      suite.instance.clock.advance(3_000); // figures are kept for two seconds, also those polled before the revocation
      await route.fulfill({ response });
    });
    await g.show("leaks");
    await button(page, "Revoke CI").click();
    await button(page, "Revoke key").click();
    await count.waitFor({ state: "detached", timeout: UNPOLLED_MS });
    await expect.poll(() => page.getByRole("table", { name: "Leaked secret keys" }).count()).toBe(0);
    await g.expectClean();
  });

  it("selects no rows of the query before, and returns the focus when the new ones arrive", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    for (const name of ["CI", "Prod"])
      await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name });
    const g = await open(at, { page: "keys" });
    const { page } = g;
    const all = page.getByRole("columnheader").getByRole("checkbox");
    await page.getByRole("row").filter({ hasText: "Prod" }).waitFor();
    const arrived = Promise.withResolvers<void>();
    await page.route("**/v1/keys?*q=CI*", async (route) => {
      await arrived.promise;
      await route.continue();
    });
    const box = await all.elementHandle();
    await box?.focus();
    // Typed by script, which does not move the focus: the rows may be inert before it could be moved back.
    await page.getByLabel("Search keys").evaluate((input: { value: string; dispatchEvent(event: Event): boolean }) => {
      input.value = "CI";
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await page.locator("main [aria-busy=true]").waitFor();
    await expect.poll(() => page.evaluate("document.activeElement === document.body")).toBe(true);
    await box?.focus();
    await page.keyboard.press("Space");
    arrived.resolve();
    await page.getByRole("row").filter({ hasText: "Prod" }).waitFor({ state: "detached" });
    await expect.poll(() => all.isChecked()).toBe(false);
    await expect.poll(() => page.getByText(/keys? selected/).count()).toBe(0);
    await expect.poll(() => box?.evaluate((element) => element.matches(":focus"))).toBe(true);
    await g.expectClean();
  });

  it("shows only the answer for the key that was looked up last", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const mint = async (name: string): Promise<string> => {
      const made = await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name });
      return String(made.body.key);
    };
    const [first, second] = [await mint("First"), await mint("Second")];
    const g = await open(at, { page: "keys" });
    const { page } = g;
    const arrived = Promise.withResolvers<void>();
    let isRefused = false;
    await page.route("**/v1/keys/lookup", async (route) => {
      if (isRefused) return route.abort();
      if (route.request().postData()?.includes(first)) await arrived.promise;
      await route.continue();
    });
    await page.getByRole("searchbox", { name: "Search keys" }).fill(first);
    const found = dialog(page, "Look up a key");
    await found.getByText("Looking up…").waitFor();
    await field(page, "Key").fill(second);
    await page.keyboard.press("Enter");
    await found.getByText("Second").waitFor();
    const late = page.waitForResponse("**/v1/keys/lookup");
    arrived.resolve();
    await (await late).finished();
    await page.evaluate("new Promise(requestAnimationFrame)");
    expect(await found.getByText("First").count()).toBe(0);
    isRefused = true;
    await field(page, "Another key").fill(first);
    await page.keyboard.press("Enter");
    await found.getByText("Cannot reach the server", { exact: false }).waitFor();
    await expect.poll(() => found.getByText(/Second|Allowed|Looking up/).count()).toBe(0);
  });

  it("shows the other parts of a page when one fails to render", async () => {
    const at = await shop(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "settings" });
    const { page } = g;
    await page.route("**/v1/projects/*", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), default_rate_limits: [null] } });
    });
    await g.show(`projects/${at.project_id}`);
    await page.getByRole("alert").getByText("This part of the page failed.").waitFor();
    await expect.poll(() => page.getByRole("heading", { name: "Verify keys" }).count()).toBe(1);
    await button(page, "Reload").waitFor();
  });
});
