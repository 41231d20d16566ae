// Projects and tenants: lists, pages, creating, changing and deleting.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { signedIn } from "../../../harness/browser/dashboard.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { button, dialog, field, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { team } from "../../../harness/instances/people.ts";

const EVIL = '"><img src=x onerror=alert(1)>\u202Egnp.exe';

describe.runIf(hasBrowser)("projects and tenants", () => {
  const suite = useBrowserSuite();

  it("creates, changes and deletes a project", async () => {
    const t = await team(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, t, { page: "projects" });
    const { page } = g;
    await g.at("Projects");
    await page.getByRole("heading", { name: "No projects yet" }).waitFor();
    await expectAccessible(page);
    await button(page, "Create project").click();
    await field(page, "Name").fill("Orders API");
    await page.getByLabel(/^Default rate limits/).fill("100 a minute");
    await dialog(page, "Create project").getByRole("button", { name: "Create project" }).click();
    await page.getByText("Default rate limits has a line that is not a rule: 100 a minute.").waitFor();
    await page.getByLabel(/^Default rate limits/).fill("burst: 100 / minute per tenant");
    await dialog(page, "Create project").getByRole("button", { name: "Create project" }).click();
    await g.at("Orders API");
    await page.getByText("100 / minute per tenant").waitFor();
    const { body } = await suite.instance.call(t.owner.session, "GET /v1/projects");
    const [{ id, slug, default_rate_limits }] = body.data;
    expect([slug, default_rate_limits[0].id, default_rate_limits[0].limit]).toEqual(["orders-api", "burst", 100]);
    expect(await page.getByRole("region", { name: "Express snippet" }).innerText()).toContain(id);
    await expectAccessible(page);

    await button(page, "Edit").click();
    await field(page, "Name").fill("Orders");
    await button(page, "Save").click();
    await g.at("Orders");

    const tenant = await suite.instance.call(t.owner.session, "POST /v1/tenants", { external_id: "one" });
    const key = { project_id: id, tenant_id: tenant.body.id, env: "test" };
    await suite.instance.call(t.owner.session, "POST /v1/keys", key);
    await button(page, "Delete project").click();
    const confirm = dialog(page, "Delete project");
    await confirm.getByText("1 key stops working at once.").waitFor();
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Cancel");
    await confirm.getByLabel("Type orders-api to confirm").fill("orders-api");
    await confirm.getByRole("button", { name: "Delete project" }).click();
    await g.at("Projects");
    await page.getByText("Project deleted. 1 key revoked.").waitFor();
    await page.getByRole("heading", { name: "No projects yet" }).waitFor();
    await g.expectClean();
  });

  it("shows hostile names of tenants as text, and deletes a tenant after its external id is typed", async () => {
    const t = await team(suite.instance);
    const phone = { viewport: { width: 390, height: 780 }, colorScheme: "dark" as const };
    await using g = await signedIn(suite.browser, suite.instance, t, { page: "tenants", ...phone });
    const { page } = g;
    await button(page, "Create tenant").click();
    const create = dialog(page, "Create tenant");
    await create.getByLabel("External id").fill("cus_1");
    await create.getByLabel(/^Name/).fill(EVIL);
    await create.getByLabel(/^Meta/).fill("{");
    await create.getByRole("button", { name: "Create tenant" }).click();
    await create.getByText("Meta is not JSON.").waitFor();
    await create.getByLabel(/^Meta/).fill('{"plan":"pro"}');
    await create.getByRole("button", { name: "Create tenant" }).click();
    await g.at(EVIL);
    await page.getByRole("region", { name: "Meta" }).getByText('"plan": "pro"').waitFor();
    expect(await page.locator("img").count()).toBe(0);
    await expectAccessible(page);

    await button(page, "End embed tokens").click();
    await dialog(page, "End embed tokens").getByRole("button", { name: "End embed tokens" }).click();
    await page.getByText("Embed tokens ended.").waitFor();
    const { body } = await suite.instance.call(t.owner.session, "GET /v1/tenants");
    expect(body.data[0]).toMatchObject({ name: EVIL, meta: { plan: "pro" }, embed_epoch: 2 });

    await page.getByRole("link", { name: "Tenants" }).first().click();
    await page.getByRole("table", { name: "Tenants" }).getByRole("link", { name: EVIL }).click();
    await button(page, "Delete tenant").click();
    const confirm = dialog(page, "Delete tenant");
    await confirm.getByRole("button", { name: "Delete tenant" }).click({ force: true }); // not typed yet: does nothing
    await confirm.getByLabel("Type cus_1 to confirm").fill("cus_1");
    await confirm.getByRole("button", { name: "Delete tenant" }).click();
    await page.getByText("Tenant deleted. 0 keys revoked.").waitFor();
    await g.expectClean();
  });

  it("lets members look, and says why they cannot change anything", async () => {
    const t = await team(suite.instance);
    await suite.instance.call(t.owner.session, "POST /v1/projects", { name: "Orders", slug: "orders" });
    await using g = await signedIn(suite.browser, suite.instance, t, { page: "projects", role: "member" });
    await g.page.getByRole("link", { name: "Orders" }).click();
    await g.at("Orders");
    const sent: string[] = [];
    g.page.on("request", (request) => request.method() !== "GET" && sent.push(request.url()));
    for (const name of ["Edit", "Delete project"]) {
      const refused = button(g.page, name);
      await refused.click({ force: true });
      expect(await refused.getAttribute("aria-disabled")).toBe("true");
    }
    expect(await g.page.getByRole("dialog").count()).toBe(0);
    expect(sent).toEqual([]);
    await g.show("projects/01a1e3c8-0444-732a-922b-13ab70423f87");
    await g.page.getByRole("heading", { name: "Not found" }).waitFor();
    await g.expectClean();
  });
});
