// Projects and tenants: lists, pages, creating, changing and deleting.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { ownWorkspace, signedIn, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { expectAccessible, setLook } from "../../../harness/browser/pages.ts";
import { button, dialog, field, REASON, useBrowserSuite } from "../../../harness/browser/suite.ts";

const EVIL = '"><img src=x onerror=alert(1)>\u202Egnp.exe';
/** Without a place to break, and with a character that reverses what follows it. */
const LONG_ID = `cus_${"1".repeat(90)}\u202Eid`;

describe.runIf(hasBrowser)("projects and tenants", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("creates, changes and deletes a project", async () => {
    const t = await ownWorkspace(suite.instance);
    const g = await open(t, { page: "projects", env: "test" });
    const { page } = g;
    await g.at("Projects");
    await page.getByRole("heading", { name: "No projects yet" }).waitFor();
    await expectAccessible(page);
    await button(page, "Create project").click();
    await dialog(page, "Create project").getByText("Applies to live and test").waitFor();
    await field(page, "Name").fill("Orders API");
    await page.getByLabel(/^Default rate limits/).fill("100 a minute");
    await dialog(page, "Create project").getByRole("button", { name: "Create project" }).click();
    await page.getByText("Default rate limits: this line is not a rule: 100 a minute.").waitFor();
    await page.getByLabel(/^Default rate limits/).fill("burst: 100 / minute per tenant");
    await dialog(page, "Create project").getByRole("button", { name: "Create project" }).click();
    await g.at("Orders API");
    await page.getByText("100 / minute per tenant").waitFor();
    const { body } = await suite.instance.call(t.owner.session, "GET /v1/projects");
    const [{ id, slug, default_rate_limits }] = body.data;
    expect([slug, default_rate_limits[0].id, default_rate_limits[0].limit]).toEqual(["orders-api", "burst", 100]);
    await expect.poll(() => page.getByRole("region", { name: "Express snippet" }).innerText()).toContain(id);
    await page.getByRole("tab", { name: "Hono" }).click();
    await page.reload(); // the address has the tab
    await expect.poll(() => page.getByRole("region", { name: "Hono snippet" }).innerText()).toContain(id);
    await expectAccessible(page);

    await button(page, "Edit").click();
    await field(page, "Name").fill("Orders");
    const [usual, longest, idle] = [/^Days until/, /^Longest lifetime/, /^Days after/].map((name) =>
      page.getByLabel(name),
    );
    await usual?.fill("400");
    await longest?.fill("30");
    await button(page, "Save").click();
    await page.getByText("Days until a new key expires must not be longer than the longest lifetime.").waitFor();
    await usual?.fill("");
    await page.getByLabel(/^Days before expiry/).fill("30, x");
    await button(page, "Save").click();
    await page.getByText("Days before expiry on which owners are mailed: x is not a whole number.").waitFor();
    await page.getByLabel(/^Days before expiry/).fill("30, 7");
    await idle?.fill("3"); // the server names it key_policy.idle_revoke_days
    await button(page, "Save").click();
    await expect.poll(() => idle?.evaluate((input) => input.matches("[aria-invalid=true]:focus"))).toBe(true);
    await expect.poll(() => dialog(page, "Edit project").locator(".alert p").count()).toBe(0);
    for (const days of [longest, idle]) await days?.fill("");
    await button(page, "Save").click();
    await g.at("Orders");

    const tenant = await suite.instance.call(t.owner.session, "POST /v1/tenants", { external_id: "one" });
    const key = { project_id: id, tenant_id: tenant.body.id, env: "test" };
    await suite.instance.call(t.owner.session, "POST /v1/keys", key);
    const disabled = await suite.instance.call(t.owner.session, "POST /v1/keys", key);
    await suite.instance.call(t.owner.session, `POST /v1/keys/${disabled.body.id}/disable`, {});
    await button(page, "Delete project").click();
    const confirm = dialog(page, "Delete project");
    await confirm.getByText("1 key stops working immediately.").waitFor();
    await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Cancel");
    await confirm.getByLabel("Type orders-api to confirm").fill("orders-api");
    await confirm.getByRole("button", { name: "Delete project" }).click();
    await g.at("Projects");
    await page.getByText("Project deleted. 2 keys revoked.").waitFor();
    await page.getByRole("heading", { name: "No projects yet" }).waitFor();
    await g.expectClean();
  });

  it("shows the balances of quotas on the pages of a tenant and of a key", async () => {
    const t = await ownWorkspace(suite.instance);
    const call = async (route: string, body: object) => (await suite.instance.call(t.owner.session, route, body)).body;
    const project = await call("POST /v1/projects", { name: "API", slug: "api" });
    const quotas = [{ id: "calls", amount: 1000, refill: "none" }];
    const tenant = await call("POST /v1/tenants", { external_id: "one", quotas });
    const want = { project_id: project.id, tenant_id: tenant.id, env: "live", quotas: [{ ...quotas[0], id: "own" }] };
    const key = await call("POST /v1/keys", want);
    await call(`POST /v1/tenants/${tenant.id}/quotas/calls/grants`, { units: 5 });
    const g = await open(t, { page: `tenants/${tenant.id}` });
    const { page } = g;
    await page.getByText("1,005 of 1,005 left, including 5 granted").waitFor();
    await expect.poll(() => page.getByRole("meter", { name: "calls" }).getAttribute("value")).toBe("1005");
    await expectAccessible(page);
    await page.locator(`a[href$="keys?tenant=${tenant.id}&state=all"]`, { hasText: "including revoked" }).waitFor();
    await page.goto(page.url().replace(`tenants/${tenant.id}`, `keys/${key.id}`));
    await page.getByText("1,000 of 1,000 left").waitFor();
    await expect.poll(() => page.getByRole("meter").count()).toBe(2);
    await expectAccessible(page);
    // The tenant is read again with the key.
    await call(`POST /v1/tenants/${tenant.id}/suspend`, { reason: "unpaid" });
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await page.getByText("Its tenant has been suspended since").waitFor();
    // A balance that cannot be read is not the same as none.
    await page.route("**/quotas", (route) => route.fulfill({ status: 409, json: {} }));
    await page.reload();
    const panel = page.locator(".panel").filter({ has: page.getByRole("heading", { name: "Quotas" }) });
    await panel.getByText("This could not be loaded.").waitFor();
    await page.unroute("**/quotas");
    await panel.getByRole("button", { name: "Try again" }).click();
    await page.getByText("1,000 of 1,000 left").waitFor();
    await g.expectClean();
  });

  it("shows hostile names of tenants as text, and deletes a tenant after its external id is typed", async () => {
    const t = await ownWorkspace(suite.instance);
    const g = await open(t, { page: "tenants" });
    const { page } = g;
    await setLook(page, { viewport: { width: 390, height: 780 }, colorScheme: "dark" });
    await button(page, "Create tenant").click();
    const create = dialog(page, "Create tenant");
    await create.getByLabel("External id").fill(LONG_ID);
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

    await button(page, "More actions").click();
    await page.getByRole("menuitem", { name: "End embed tokens" }).click();
    await dialog(page, "End embed tokens").getByRole("button", { name: "End embed tokens" }).click();
    await page.getByText("Embed tokens ended.").waitFor();
    const { body } = await suite.instance.call(t.owner.session, "GET /v1/tenants");
    expect(body.data[0]).toMatchObject({ name: EVIL, meta: { plan: "pro" }, embed_epoch: 2 });

    await page.getByRole("link", { name: "Tenants" }).first().click();
    await page.getByRole("table", { name: "Tenants" }).getByRole("link", { name: EVIL }).click();
    await button(page, "More actions").click();
    await page.getByRole("menuitem", { name: "Delete tenant" }).click();
    const confirm = dialog(page, "Delete tenant");
    await confirm.getByRole("button", { name: "Delete tenant" }).click({ force: true }); // not typed yet: does nothing
    await expect.poll(() => page.evaluate(REASON)).toEqual({ isShown: true, isInWindow: true, scrolls: false });
    await expect.poll(() => confirm.locator("label bdi").textContent()).toBe(LONG_ID); // the words after it are not reversed
    await confirm.getByLabel(`Type ${LONG_ID} to confirm`).fill(LONG_ID);
    await confirm.getByRole("button", { name: "Delete tenant" }).click();
    await page.getByText("Tenant deleted. 0 keys revoked.").waitFor();
    await g.show("audit");
    await page.getByRole("link", { name: "Tenant created" }).waitFor();
    expect(await page.locator("a[href*='/tenants/']").count()).toBe(0); // it has no page any more
    await g.expectClean();
  });

  it("confines a tenant and one of its keys to networks, and names the field of a mistake", async () => {
    const t = await ownWorkspace(suite.instance);
    const call = (route: string, body?: unknown) => suite.instance.call(t.owner.session, route, body);
    const project = await call("POST /v1/projects", { name: "Orders", slug: "orders" });
    const tenant = await call("POST /v1/tenants", { external_id: "one" });
    const odd = {
      scopes: ["read orders", "a,b", `a-very-long-scope:${"with-more-parts:".repeat(4)}read`],
      rate_limits: [{ id: "r", limit: 5, window_ms: 1_500, algorithm: "sliding", scope: "key" }],
    };
    const owner = { project_id: project.body.id, tenant_id: tenant.body.id };
    const key = await call("POST /v1/keys", { ...owner, env: "test", ...odd });
    const g = await open(t, { page: `tenants/${tenant.body.id}` });
    const { page } = g;
    await button(page, "Edit").click();
    const edit = dialog(page, "Edit tenant");
    await edit.getByLabel("Allowed IP addresses").selectOption("These networks only");
    await edit.getByLabel("Networks").fill("10.0.0.0/8\n10.1.2.3/8");
    await button(page, "Save").click();
    await edit.getByText("Networks: entry 2 has bits set beyond its mask").first().waitFor();
    await edit.getByLabel("Networks").fill("10.0.0.0/8\n2001:DB8::/32");
    await button(page, "Save").click();
    await dialog(page, "Tenant saved").getByText("No verifier is connected.").waitFor();
    await expectAccessible(page);
    await button(page, "Done").click();
    await page.getByText("2001:db8::/32").waitFor();
    await g.show(`tenants/${tenant.body.id}`, "test");
    await button(page, "Suspend").click();
    await page.getByRole("dialog").getByText("Applies to live and test").waitFor();
    await button(page, "Suspend tenant").click();
    await dialog(page, "Tenant suspended").waitFor();
    await button(page, "Done").click();
    await g.show("tenants?state=active", "test");
    await page.getByRole("heading", { name: "No tenants match" }).waitFor();
    await page.getByLabel("Filter by state").selectOption("Suspended");
    await page.getByRole("table", { name: "Tenants" }).getByRole("link").click();
    await button(page, "Resume").click();
    await button(page, "Resume tenant").click();
    await dialog(page, "Tenant resumed").waitFor();
    await button(page, "Done").click();

    await g.show(`keys/${key.body.id}`); // its environment replaces that of the link
    await page.getByText("Test data").waitFor();
    expect(page.url()).toContain(`/test/keys/${key.body.id}`);
    await page.getByText("Same as the tenant").waitFor();
    await button(page, "Edit").click();
    await dialog(page, "Edit key")
      .getByLabel("Allowed IP addresses")
      .selectOption("Any address; report requests from outside these networks");
    await dialog(page, "Edit key").getByLabel("Networks").fill("2001:db8:1234:5678:9abc::/80\n192.0.2.0/24");
    await button(page, "Save").click();
    await dialog(page, "Key saved").getByText("No verifier is connected.").waitFor();
    await button(page, "Done").click();
    await page.getByText("others are allowed and reported").waitFor();
    const areCut = () =>
      page
        .locator(".chip")
        .evaluateAll((chips) => chips.map(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth));
    await expect.poll(areCut).toEqual([false, false, false, false, false]); // scopes and networks are whole
    await button(page, "Edit").click();
    await dialog(page, "Edit key").getByLabel(/^Name/).fill("Renamed");
    const renamed = page.waitForRequest((request) => request.method() === "PATCH");
    await button(page, "Save").click();
    expect((await renamed).postDataJSON()).toEqual({ name: "Renamed" }); // not what others may have changed since
    await g.at("Renamed");
    expect(await page.getByRole("dialog").count()).toBe(0); // nodes do not know names
    const { body } = await call(`GET /v1/keys/${key.body.id}`);
    expect([body.allowed_cidrs, body.ip_mode]).toEqual([["2001:db8:1234:5678:9abc::/80", "192.0.2.0/24"], "report"]);
    expect([body.scopes, body.rate_limits[0].window_ms]).toEqual([odd.scopes, 1_500]);
    await g.expectClean();
  });

  it("lets members look, and says why they cannot change anything", async () => {
    const t = await ownWorkspace(suite.instance);
    await suite.instance.call(t.owner.session, "POST /v1/projects", { name: "Orders", slug: "orders" });
    await using g = await signedIn(suite.browser, suite.instance, t, { page: "projects", role: "member" });
    await g.page.getByRole("link", { name: "Orders" }).click();
    await g.at("Orders");
    const sent: string[] = [];
    g.page.on("request", (request) => request.method() !== "GET" && sent.push(request.url()));
    for (const name of ["Edit", "Delete project"]) {
      const refused = button(g.page, name);
      await refused.click({ force: true });
      await expect.poll(() => refused.getAttribute("aria-disabled")).toBe("true");
    }
    expect(await g.page.getByRole("dialog").count()).toBe(0);
    expect(sent).toEqual([]);
    await g.show("projects/01a1e3c8-0444-732a-922b-13ab70423f87");
    await g.page.getByRole("heading", { level: 1, name: "Not found" }).waitFor();
    // A filter has the projects of every page.
    await g.page.route("**/v1/projects?limit=200*", (route) => {
      const isLast = route.request().url().endsWith(`&after=${t.id}`);
      const data = [isLast ? { id: t.owner.id, name: "Oldest" } : { id: t.id, name: "Newest" }];
      return route.fulfill({ json: { object: "list", data, ...(!isLast && { has_more: true }) } });
    });
    await g.show("usage");
    await g.page.locator("option", { hasText: "Oldest" }).waitFor({ state: "attached" });
    await g.expectClean();
  });
});
