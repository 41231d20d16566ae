// The preview of the portal, its origins, and usage.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn } from "../../../harness/browser/dashboard.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { button, useBrowserSuite } from "../../../harness/browser/suite.ts";

describe.runIf(hasBrowser)("portal and usage", () => {
  const suite = useBrowserSuite();

  it("previews the portal with a tenant's keys, and changes nothing", async () => {
    const t = await shop(suite.instance);
    const key = { project_id: t.project_id, tenant_id: t.tenant_id, env: "live", name: "Their key" };
    await suite.instance.call(t.owner.session, "POST /v1/keys", key);
    await using g = await signedIn(suite.browser, suite.instance, t, { page: "portal" });
    const { page } = g;
    const portal = page.locator("keyrack-portal");
    await portal.getByText("Reporting").waitFor(); // sample data
    await page.getByRole("combobox", { name: "Tenant" }).click();
    await page.getByRole("option", { name: /Globex/ }).click();
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

    await page.getByLabel("Origin", { exact: true }).fill("app.example.com/path");
    await button(page, "Add origin").click();
    await page.locator("[aria-invalid=true]").waitFor();
    await page.getByLabel("Origin", { exact: true }).fill("https://app.example.com");
    await button(page, "Add origin").click();
    await page.getByText("Origin added.").waitFor();
    await expectAccessible(page);
    await button(page, "Remove https://app.example.com").click();
    await page.getByText("None yet: the portal works nowhere.").waitFor();
    await g.expectClean();
  });

  it("shows the tenants of a month as chart, table and CSV", async () => {
    const t = await shop(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, t, { page: "usage" });
    const { page } = g;
    await page.getByText("No live request was admitted this month.").waitFor();
    await button(page, "Show as table").click();
    expect(
      await page
        .getByRole("region", { name: /0 active tenants this month/ })
        .getByRole("row")
        .count(),
    ).toBe(13);
    await expectAccessible(page);
    await g.expectClean();
  });
});
