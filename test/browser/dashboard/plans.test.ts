// Plans in the dashboard.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { ownWorkspace, shop, signedIn, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { button, dialog, useBrowserSuite } from "../../../harness/browser/suite.ts";

describe.runIf(hasBrowser)("plans", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("creates a plan, puts a tenant on it, shows where a key's limits come from, and deletes it when unused", async () => {
    const t = await ownWorkspace(suite.instance);
    const call = (route: string, body?: object) => suite.instance.call(t.owner.session, route, body);
    const project = await call("POST /v1/projects", { name: "Orders", slug: "orders" });
    const tenant = await call("POST /v1/tenants", { external_id: "cus_1" });
    const want = { project_id: project.body.id, tenant_id: tenant.body.id, env: "live", scopes: ["a", "b"] };
    const key = await call("POST /v1/keys", want);
    const g = await open(t, { page: "plans" });
    const { page } = g;
    await g.at("Plans");
    await page.getByRole("heading", { name: "No plans yet" }).waitFor();
    await button(page, "Create plan").click();
    const create = dialog(page, "Create plan");
    await create.getByLabel("Name").fill("Pro");
    await create.getByLabel(/^Rate limits/).selectOption("Custom limits");
    await create.getByLabel("Rules").fill("100 / minute");
    await create.getByLabel(/^Scopes/).selectOption("Only some");
    await create.getByRole("button", { name: "Create plan" }).click();
    await create.getByText("Allowed scopes is required.").waitFor(); // an empty list would allow none
    await create.getByLabel("Allowed scopes").fill("a");
    await create.getByLabel(/^Scopes/).selectOption("No scope");
    await create.getByText("Keys lose every scope until the plan allows it again.").waitFor();
    await create.getByLabel("Allowed scopes").waitFor({ state: "hidden" });
    await create.getByLabel(/^Scopes/).selectOption("Only some");
    await expect.poll(() => create.getByLabel("Allowed scopes").inputValue()).toBe("a");
    await create.getByLabel(/^Maximum active keys/).fill("many");
    await create.getByRole("button", { name: "Create plan" }).click();
    await create.getByText("Maximum active keys must be a whole number, or empty.").waitFor();
    await create.getByLabel(/^Maximum active keys/).fill("5");
    await expectAccessible(page);
    await create.getByRole("button", { name: "Create plan" }).click();
    await g.at("Pro");
    await page.getByText(/--quotas '\[\{"id":"calls"/).waitFor(); // how to set what only the command line can
    await page.getByText("100 / minute").waitFor();
    const { body } = await call("GET /v1/plans");
    expect(body.data[0]).toMatchObject({ slug: "pro", scopes: ["a"], max_keys: 5, key_ttl_days: null });
    const quotas = [
      { id: "monthly", amount: 1000, refill: "monthly" },
      { id: "trial", amount: 50, refill: "none", overage: "report" },
    ];
    await call(`PATCH /v1/plans/${body.data[0].id}`, { quotas });
    // The projects whose nodes learn of a change must be known before it is made.
    const arrived = Promise.withResolvers<void>();
    await page.route("**/v1/projects?*", async (route) => {
      await arrived.promise;
      await route.continue();
    });
    await page.reload();
    await button(page, "Edit").click();
    const edit = dialog(page, "Edit plan");
    await edit.locator(".skeleton").waitFor();
    arrived.resolve();
    await edit.getByLabel(/^Scopes/).selectOption("No scope");
    await button(page, "Save").click();
    await edit.waitFor({ state: "detached" });
    expect((await call(`GET /v1/plans/${body.data[0].id}`)).body.scopes).toEqual([]);
    await button(page, "Edit").click();
    await edit.getByLabel(/^Scopes/).selectOption("Only some");
    await edit.getByLabel("Allowed scopes").fill("a");
    await button(page, "Save").click();
    await edit.waitFor({ state: "detached" });
    const shown = page.getByRole("definition").filter({ hasText: "keyrack plan update" }).getByRole("listitem");
    await expect.poll(() => shown.allInnerTexts()).toEqual(["1,000 a month monthly", "50 once, only reported trial"]);
    const command = page.getByRole("region", { name: "command" });
    const [, json = ""] = /^keyrack plan update \S+ --quotas '(.*)'$/.exec((await command.textContent()) ?? "") ?? [];
    await call(`PATCH /v1/plans/${body.data[0].id}`, { quotas: JSON.parse(json) as object }); // as they are
    await expect.poll(() => shown.allInnerTexts()).toHaveLength(2);
    await expectAccessible(page);

    await g.show(`tenants/${tenant.body.id}`);
    await button(page, "Edit").click();
    await dialog(page, "Edit tenant").getByLabel(/^Plan/).selectOption("Pro");
    await button(page, "Save").click();
    await page.getByRole("link", { name: "Pro", exact: true }).waitFor();
    await page.getByText("Tenant saved").waitFor(); // the page may show the plan before the form has its response
    await g.show("tenants");
    await page.getByRole("row", { name: /cus_1/ }).getByRole("cell", { name: "Pro" }).waitFor();
    await g.show(`keys/${key.body.id}`);
    await page.getByText("Scopes removed by the plan").waitFor();
    const facts = await page.locator("dl.facts").allInnerTexts();
    expect(facts.join(" ").replace(/\s+/g, " ")).toMatch(
      /100 \/ minute Source Plan Plan Pro Scopes removed by the plan b/,
    );

    await g.show(`plans/${body.data[0].id}`);
    await button(page, "Delete plan").click({ force: true });
    expect(await page.getByRole("dialog").count()).toBe(0); // a tenant uses it
    await page.getByRole("definition").getByRole("link", { name: "1", exact: true }).click();
    await g.at("Tenants");
    await expect.poll(() => page.locator("tbody").getByRole("row").count()).toBe(1);
    await page.getByRole("rowheader", { name: /cus_1/ }).getByRole("link").click();
    await g.at("cus_1");
    const rules = ["a", "b", "c"].map((id, i) => ({
      id,
      limit: i + 1,
      window_ms: 60_000,
      algorithm: "sliding",
      scope: "key",
    }));
    await call(`PATCH /v1/tenants/${tenant.body.id}`, { rate_limits: rules });
    await page.reload();
    await page.getByText("3 / minute").waitFor(); // all of them
    await g.show(`plans/${body.data[0].id}`);
    await call(`PATCH /v1/tenants/${tenant.body.id}`, { plan_id: null });
    await page.reload();
    await button(page, "Delete plan").click();
    await dialog(page, "Delete plan").getByRole("button", { name: "Delete plan" }).click();
    await page.getByRole("heading", { name: "No plans yet" }).waitFor();
    await g.expectClean();
  });

  it("shows what could not be read as such, not as none", async () => {
    const t = await shop(suite.instance);
    const plan = await suite.instance.call(t.key, "POST /v1/plans", { slug: "pro", name: "Pro" });
    await suite.instance.call(t.key, `PATCH /v1/tenants/${t.tenant_id}`, { plan_id: plan.body.id });
    await using g = await signedIn(suite.browser, suite.instance, t, { page: "nowhere" });
    const { page } = g;
    await g.at("This page does not exist");
    const error = { code: "internal_error", message: "Something went wrong." };
    for (const reads of ["projects", "plans"])
      await page.route(`**/v1/${reads}*`, (route) => route.fulfill({ status: 500, json: { error } }));
    await g.show("developers");
    const projects = page.getByRole("definition").filter({ hasText: "This could not be loaded." });
    await projects.waitFor();
    expect(
      await page
        .getByRole("definition")
        .filter({ hasText: /^None$/ })
        .count(),
    ).toBe(0);
    await g.show("tenants");
    const row = page.getByRole("row", { name: /^Globex/ });
    await row.getByText(String(plan.body.id).slice(0, 8)).waitFor();
    const filter = page.getByLabel("Filter by plan");
    await expect.poll(() => filter.locator("option").allTextContents()).toEqual(["Plans could not be loaded"]);
    await page.unrouteAll();
    await g.show("developers");
    await button(page, "Copy id of Orders").waitFor();
    await g.show("tenants");
    await row.getByRole("link", { name: "Pro" }).waitFor();
    await expect.poll(() => filter.locator("option").allTextContents()).toEqual(["All plans", "Pro"]);
    // It may be the address that the server refuses.
    await page.route("**/v1/tenants?*plan_id=no*", (route) => route.fulfill({ status: 400, json: { error } }));
    await g.show("tenants?plan=no");
    await page.getByText("This could not be loaded.").waitFor();
    await page.locator(".failed").getByRole("button", { name: "Try again" }).waitFor();
    await page.locator(".failed").getByRole("button", { name: "Clear filters" }).click();
    await row.waitFor();
  });
});
