// The preview of the portal, and its origins.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { button, useBrowserSuite } from "../../../harness/browser/suite.ts";

describe.runIf(hasBrowser)("the portal's page", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("previews the portal with a tenant's keys, and changes nothing", async () => {
    const t = await shop(suite.instance);
    const scope_catalogue = [{ name: "orders:read", description: "Read orders", default: false }];
    await suite.instance.call(t.owner.session, `PATCH /v1/projects/${t.project_id}`, { scope_catalogue });
    const key = { project_id: t.project_id, tenant_id: t.tenant_id, env: "live", name: "Their key" };
    await suite.instance.call(t.owner.session, "POST /v1/keys", key);
    await suite.instance.call(t.owner.session, "POST /v1/tenants", { external_id: "initech", name: "Initech" });
    const g = await open(t, { page: "portal" });
    const { page } = g;
    const portal = page.locator("keyrack-portal");
    await page.getByText("Sample data. Choose a tenant").waitFor();
    await portal.getByText("Reporting").waitFor();
    await page.getByRole("combobox", { name: "Tenant" }).click();
    await page.getByRole("option", { name: /Initech/ }).click();
    await page.getByText("This tenant has no live keys in this project. What you see is sample data.").waitFor();
    await portal.getByText("Example customer").waitFor(); // invented keys are not shown as Initech's
    // Leaving the field, as by leaving the page, chooses nothing: the choice is in the address.
    await page.getByRole("combobox", { name: "Tenant" }).fill("glo");
    await page.getByRole("option", { name: /Initech/ }).waitFor({ state: "detached" });
    await page.getByRole("option", { name: /Globex/ }).waitFor();
    await page.keyboard.press("Tab");
    await expect.poll(() => page.getByRole("combobox", { name: "Tenant" }).inputValue()).toBe("Initech");
    await page.getByRole("combobox", { name: "Tenant" }).fill("glo");
    await page.getByRole("option", { name: /Globex/ }).click();
    await portal.getByText("Their key").waitFor();
    await portal.getByText(/^Globex/).waitFor();
    await expect.poll(() => page.getByText("sample data").count()).toBe(0);
    await page.reload(); // the address has the choice
    await portal.getByText("Their key").waitFor();
    await portal.getByRole("button", { name: /^Revoke/ }).click();
    await portal
      .getByRole("dialog")
      .getByRole("button", { name: /^Revoke/ })
      .click();
    await portal.getByText("This is a preview. Nothing was changed.").waitFor();
    const { body } = await suite.instance.call(t.owner.session, `GET /v1/keys?tenant_id=${t.tenant_id}`);
    expect(body.data.map(({ name }: { name: string }) => name)).toEqual(["Their key"]);
    await portal.getByRole("button", { name: /Cancel/ }).click();
    await page.getByText("Colours", { exact: true }).click();
    await page.getByLabel("Surface", { exact: true }).fill("#fff7e6");
    const surface = "getComputedStyle(document.querySelector('keyrack-portal')).getPropertyValue('--keyrack-surface')";
    await expect.poll(() => page.evaluate(surface)).toBe("#fff7e6");
    await page.getByRole("tab", { name: "CSS" }).click();
    await expect
      .poll(() => page.getByRole("region", { name: "CSS snippet" }).innerText())
      .toContain("--keyrack-surface: #fff7e6;");
    await expectAccessible(page);
    // Paper has neither controls nor the buttons of the preview.
    await page.emulateMedia({ media: "print" });
    await expect.poll(() => page.locator("main :is(button, select, input):visible").count()).toBe(0);
    await portal.getByRole("heading", { name: "Their key" }).waitFor();
    await page.emulateMedia({ media: "screen" });
    // Shortcuts of the dashboard leave what is typed in the preview alone.
    await portal.getByRole("button", { name: "Create key" }).click();
    await portal.getByRole("textbox", { name: /^Name/ }).press("g");
    await page.keyboard.type("k?/");
    await expect.poll(() => portal.getByRole("textbox", { name: /^Name/ }).inputValue()).toBe("gk?/");
    await portal.getByText("Read orders").waitFor(); // the project's words for a scope
    expect(page.url()).toContain("/portal");
    await portal.getByRole("button", { name: /Cancel/ }).click();

    await page.getByLabel("Origin", { exact: true }).fill("app.example.com/path");
    await button(page, "Add origin").click();
    await page.locator("[aria-invalid=true]").waitFor();
    await page.getByLabel("Origin", { exact: true }).fill("https://app.example.com");
    await button(page, "Add origin").click();
    await page.getByText("Origin added.").waitFor();
    await expectAccessible(page);
    // A refusal stays at its origin.
    const refused = { error: { code: "forbidden", message: "Not now.", details: [], request_id: "r" } };
    await page.route("**/v1/workspace", (route) =>
      route.request().method() === "PATCH" ? route.fulfill({ status: 403, json: refused }) : route.continue(),
    );
    await button(page, "Remove https://app.example.com").click();
    const origins = page.getByRole("list", { name: "Origins" });
    const remove = page.getByRole("dialog", { name: "Remove origin" });
    await remove.getByText("https://app.example.com").waitFor();
    await remove.getByText("in live and in test").waitFor();
    await button(page, "Remove origin").click();
    await remove.getByRole("alert").getByText("Not now.").waitFor();
    await expectAccessible(page);
    await button(page, "Cancel").click();
    await page.unroute("**/v1/workspace");
    // A change is based on what the one before left, and what is being typed stays.
    await page.getByLabel("Origin", { exact: true }).fill("https://b.example.com");
    await button(page, "Add origin").click();
    await origins.getByText("https://b.example.com").waitFor();
    await page.getByLabel("Origin", { exact: true }).fill("https://c.example.com");
    for (const origin of ["app", "b"]) {
      await button(page, `Remove https://${origin}.example.com`).click();
      await button(page, "Remove origin").click();
      await remove.waitFor({ state: "detached" });
    }
    await page.getByText("None yet. The portal opens nowhere until you add one").waitFor();
    await expect.poll(() => page.getByLabel("Origin", { exact: true }).inputValue()).toBe("https://c.example.com");
    await page.getByRole("combobox", { name: "Theme" }).selectOption("Dark");
    await page.locator("keyrack-portal[theme=dark]").waitFor(); // it does not leave the page
    // A refusal to leave leaves the switch where it was.
    const asked = page.waitForEvent("dialog");
    page.once("dialog", (dialog) => void dialog.dismiss());
    await page.getByLabel("Test", { exact: true }).click();
    await asked;
    await expect.poll(() => page.getByLabel("Live", { exact: true }).isChecked()).toBe(true);
    await expect.poll(() => page.url()).toContain("/live/portal");
    await g.expectClean();
  });

  it("shows no sample data for a tenant that is not there yet, or not any more", async () => {
    const t = await shop(suite.instance);
    const g = await open(t, { page: "home" });
    const { page } = g;
    const portal = page.locator("keyrack-portal");
    const arrived = Promise.withResolvers<void>();
    await page.route("**/v1/tenants/*", async (route) => {
      await arrived.promise;
      await route.continue();
    });
    await g.show(`portal?tenant=${t.tenant_id}`);
    await g.at("Portal");
    await page.getByRole("combobox", { name: "Tenant" }).waitFor();
    expect(await portal.count()).toBe(0);
    arrived.resolve();
    await page.getByText("This tenant has no live keys in this project. What you see is sample data.").waitFor();
    await suite.instance.call(t.key, `DELETE /v1/tenants/${t.tenant_id}`);
    await page.reload();
    await page.getByRole("heading", { name: "Not found" }).waitFor();
    expect(await portal.count()).toBe(0);
    await g.show("portal?tenant=nope");
    await page
      .locator(".panel")
      .first()
      .getByText(/^(Not found|This could not be loaded\.)$/)
      .waitFor();
    expect(await portal.count()).toBe(0);
    await page.getByRole("combobox", { name: "Tenant" }).fill("");
    await page.getByText("Sample data. Choose a tenant").waitFor();
    await portal.getByText("Reporting").waitFor();
    await g.expectClean();
  });
});
