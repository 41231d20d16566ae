// The dialog that creates a key: what is chosen and typed stays, and is what the key gets.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { ownWorkspace, shop, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { button, dialog, field, useBrowserSuite } from "../../../harness/browser/suite.ts";

describe.runIf(hasBrowser)("the form of a new key", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("keeps typed scopes and the chosen expiry when another project is chosen for a new key", async () => {
    const at = await shop(suite.instance);
    const scope_catalogue = [{ name: "mail:send", description: null, default: true }];
    const mails = await suite.instance.call(at.key, "POST /v1/projects", { name: "Mails", slug: "mails" });
    await suite.instance.call(at.key, `PATCH /v1/projects/${mails.body.id}`, { scope_catalogue });
    const g = await open(at, { page: `keys?project=${at.project_id}&create=key` });
    const { page } = g;
    const create = dialog(page, "Create key");
    await expect.poll(() => create.getByLabel("Project").inputValue()).toBe("Orders");
    await create.getByLabel(/^Scopes/).fill("legacy");
    await create.getByLabel("Expires").selectOption("On a date");
    await create.getByLabel("Date").fill("2090-05-04");
    await create.getByLabel("Rate limits").selectOption("Custom limits");
    await create.getByLabel("Rules").fill("5 / minute");
    await create.getByLabel("Rate limits").selectOption("No limits");
    await create.getByLabel("Rules").waitFor({ state: "hidden" });
    await create.getByLabel("Project").fill("Mai");
    await create.getByRole("option", { name: /Mails/ }).waitFor();
    await page.keyboard.press("Tab"); // chooses the only one
    await expect.poll(() => create.getByLabel("Project").inputValue()).toBe("Mails");
    await create.getByLabel("Rate limits").selectOption("Custom limits");
    await expect.poll(() => create.getByLabel("Rules").inputValue()).toBe("5 / minute");
    await create.getByLabel("mail:send").waitFor();
    await expect.poll(() => create.getByLabel("mail:send").isChecked()).toBe(true); // a default of the new project
    await expect.poll(() => create.getByLabel(/^Other scopes/).inputValue()).toBe("legacy");
    await expect.poll(() => create.getByLabel("Date").inputValue()).toBe("2090-05-04");
    await create.getByLabel("Date").fill("2001-05-04");
    const tenant = create.getByRole("combobox", { name: "Tenant" });
    await tenant.fill("glob");
    await create.getByRole("option", { name: /Globex/ }).click();
    await create.getByRole("button", { name: "Create key" }).click();
    await create.getByText(/^Date must be in the future/).waitFor();
    await expect.poll(() => create.getByLabel("Date").and(page.locator(":focus")).count()).toBe(1);
  });

  it("creates the project and the tenant that a new key needs, in place", async () => {
    const at = await ownWorkspace(suite.instance);
    const g = await open(at, { page: "keys?create=key" });
    const { page } = g;
    const create = dialog(page, "Create key");
    await create.getByRole("button", { name: "New project" }).click();
    const project = dialog(page, "Create project");
    await project.getByLabel("Name").fill("Orders");
    await project.getByRole("button", { name: "Create project" }).click();
    await expect.poll(() => create.getByLabel("Project").inputValue()).toBe("Orders");
    await create.getByRole("button", { name: "New tenant" }).click();
    await field(page, "External id").fill("globex");
    await dialog(page, "Create tenant").getByRole("button", { name: "Create tenant" }).click();
    await expect.poll(() => create.getByLabel("Tenant").inputValue()).toBe("globex");
    await create.getByRole("button", { name: "Create key" }).click();
    await dialog(page, "Save this key now").waitFor();
    await page.getByLabel("I have stored it").check();
    await button(page, "Done").click();
    await page.getByText("requests with this key are", { exact: false }).waitFor();
    await g.expectClean();
  });

  it("changes a choice by a click, and keeps it when nothing else is chosen", async () => {
    const at = await shop(suite.instance);
    await suite.instance.call(at.key, "POST /v1/tenants", { external_id: "initech", name: "Initech" });
    const g = await open(at, { page: `keys?tenant=${at.tenant_id}&create=key` });
    const { page } = g;
    const create = dialog(page, "Create key");
    const tenant = create.getByRole("combobox", { name: "Tenant" });
    await expect.poll(() => tenant.inputValue()).toBe("Globex");
    await tenant.click();
    await create.getByRole("option", { name: /^Initech/ }).waitFor();
    await page.keyboard.type("unknown");
    await create.getByLabel(/^Name/).click();
    await expect.poll(() => tenant.inputValue()).toBe("Globex");
    await tenant.click();
    await create.getByRole("option", { name: /^Initech/ }).click();
    await expect.poll(() => tenant.inputValue()).toBe("Initech");
    const questions: string[] = [];
    page.on("dialog", (asked) => {
      questions.push(asked.message());
      void asked.dismiss();
    });
    await page.mouse.click(5, 5); // on the backdrop
    await expect.poll(() => questions).toEqual(["Discard what you entered?"]);
    await create.waitFor();
  });

  it("creates a key for the tenant that was filtered by when its dialog opened, also after Back", async () => {
    const at = await shop(suite.instance);
    const other = await suite.instance.call(at.key, "POST /v1/tenants", { external_id: "initech", name: "Initech" });
    const g = await open(at, { page: `keys?tenant=${other.body.id}` });
    const { page } = g;
    await g.show(`keys?tenant=${at.tenant_id}`);
    await button(page, "Create key").first().click();
    const tenant = dialog(page, "Create key").getByRole("combobox", { name: "Tenant" });
    await expect.poll(() => tenant.inputValue()).toBe("Globex");
    const filter = page.getByRole("combobox", { name: "Filter by tenant", includeHidden: true });
    await page.evaluate("history.back()");
    await expect.poll(() => filter.inputValue()).toBe("Initech");
    await expect.poll(() => tenant.inputValue()).toBe("Globex");
    await button(page, "Cancel").click();
    await g.expectClean();
  });

  it("never sends the record chosen before while the field shows another text", async () => {
    const at = await shop(suite.instance);
    const g = await open(at, { page: `keys?project=${at.project_id}&tenant=${at.tenant_id}&create=key` });
    const { page } = g;
    const sent: string[] = [];
    page.on("request", (request) => sent.push(`${request.method()} ${new URL(request.url()).pathname}`));
    const create = dialog(page, "Create key");
    const tenant = create.getByRole("combobox", { name: "Tenant" });
    await expect.poll(() => tenant.inputValue()).toBe("Globex");
    const refused = create.getByText("Tenant must be chosen from the list.");
    await tenant.fill("Initech");
    await tenant.press("Enter"); // before the search has answered, and again after
    await refused.waitFor();
    await create.getByText("Nothing found").first().waitFor();
    await tenant.press("Enter");
    await refused.waitFor();
    await expect.poll(() => tenant.getAttribute("aria-invalid")).toBe("true");
    await expect.poll(() => tenant.inputValue()).toBe("Initech");
    await tenant.press("Escape");
    await refused.waitFor({ state: "detached" });
    await expect.poll(() => tenant.inputValue()).toBe("Globex");
    expect(sent).not.toContain("POST /v1/keys");
    // A refusal is in view, wherever the dialog is scrolled to.
    await page.setViewportSize({ width: 640, height: 400 });
    const error = { code: "limit_reached", message: "This tenant has reached its limit." };
    await page.route("**/v1/keys", (route) => route.fulfill({ status: 409, json: { error } }), { times: 1 });
    await create.getByRole("button", { name: "Create key" }).click();
    const inView =
      "(([p]) => p && p.top >= 0 && p.bottom <= innerHeight)([document.querySelector('dialog [role=alert] p')?.getBoundingClientRect()])";
    await expect.poll(() => page.evaluate(inView)).toBe(true);
    sent.length = 0;
    await tenant.press("Enter");
    await dialog(page, "Save this key now").waitFor();
    expect(sent.filter((text) => text === "POST /v1/keys")).toHaveLength(1);
    await page.getByLabel("I have stored it").check();
    await button(page, "Done").click();
    await g.expectClean();
  });

  it("opens the suggestions at the chosen record, which Enter keeps", async () => {
    const at = await shop(suite.instance);
    await suite.instance.call(at.key, "POST /v1/tenants", { external_id: "initech", name: "Initech" });
    const g = await open(at, { page: `keys?tenant=${at.tenant_id}&create=key` });
    const create = dialog(g.page, "Create key");
    const tenant = create.getByRole("combobox", { name: "Tenant" });
    await expect.poll(() => tenant.inputValue()).toBe("Globex");
    await tenant.click();
    await create.getByRole("option", { name: /^Initech/ }).waitFor();
    await create.getByRole("option", { name: /^Globex/, selected: true }).waitFor();
    await tenant.press("Enter");
    await create.getByRole("option", { name: /^Globex/ }).waitFor({ state: "detached" });
    await expect.poll(() => tenant.inputValue()).toBe("Globex");
    await tenant.press("ArrowDown");
    await create.getByRole("option", { name: /^Globex/, selected: true }).waitFor();
    await tenant.press("ArrowUp");
    await create.getByRole("option", { name: /^Initech/, selected: true }).waitFor();
    await tenant.press("Enter");
    await expect.poll(() => tenant.inputValue()).toBe("Initech");
  });
});
