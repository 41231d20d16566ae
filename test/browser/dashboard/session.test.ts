// Sessions in the browser: what ends while a form is half filled, switches in another tab, log-out everywhere.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn } from "../../../harness/browser/dashboard.ts";
import { button, field, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { PASSWORD } from "../../../harness/instances/people.ts";

describe.runIf(hasBrowser)("a session in the dashboard", () => {
  const suite = useBrowserSuite();

  it("that ends while a form is half filled asks for the password, and the key is created exactly once", async () => {
    const at = await shop(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "keys", env: "test" });
    const { page } = g;
    await button(page, "Create key").first().click();
    const form = page.getByRole("dialog", { name: "Create key" });
    await form.getByLabel("Tenant", { exact: true }).fill("glob");
    await page.getByRole("option", { name: /globex/ }).click();
    await form.getByLabel(/^Name/).fill("Half filled");
    await suite.instance.sql("update sessions set revoked_at = 1 where revoked_at is null", []);
    await form.getByRole("button", { name: "Create key" }).click();
    const again = page.getByRole("dialog", { name: "Log in again" });
    await again.waitFor();
    expect(await again.getByLabel("Email", { exact: true }).inputValue()).toBe(at.owner.email);
    await again.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await again.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("dialog", { name: "Save this key now" }).waitFor();
    const { body } = await suite.instance.call(at.key, "GET /v1/keys?env=test");
    expect(body.data.map((key: { name: string }) => key.name)).toEqual(["Half filled"]);
    await page.getByLabel("I have stored it").check();
    await button(page, "Done").click();
    await g.at("Half filled");
    await g.expectClean();
  });

  it("that another tab moved to another workspace writes nothing, and can be brought back", async () => {
    const at = await shop(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "settings" });
    const { page } = g;
    await field(page, "Workspace name").fill("Renamed");
    const other = await suite.instance.call(at.owner.session, "POST /v1/workspaces", {
      name: "Other",
      slug: `${at.slug}-b`,
    });
    await suite.instance.sql("update sessions set active_workspace_id = $1 where revoked_at is null", [
      other.body.workspace.id,
    ]);
    await button(page, "Save").click();
    await page.getByRole("dialog", { name: "This session is in another workspace now" }).waitFor();
    await button(page, "Return to Team").click();
    await button(page, "Save").click();
    await page.getByText("Workspace saved.").first().waitFor();
    const names = await suite.instance.sql("select name from workspaces where slug in ($1, $2) order by slug", [
      at.slug,
      `${at.slug}-b`,
    ]);
    expect(names).toEqual([{ name: "Renamed" }, { name: "Other" }]);
    await g.expectClean();
  });

  it("survives a reload, and after logging out nothing of the workspace is left in any tab", async () => {
    const at = await shop(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "keys" });
    const { page } = g;
    await g.at("Keys");
    await page.reload();
    await g.at("Keys");
    const [second] = await Promise.all([
      page.context().waitForEvent("page"),
      page.getByRole("link", { name: "Settings" }).click({ modifiers: ["Control"] }),
    ]);
    await second.getByRole("heading", { level: 1, name: "Settings" }).waitFor(); // signed in by the first tab
    const third = await page.context().newPage();
    await third.goto(page.url());
    await third.getByRole("heading", { level: 1, name: "Log in" }).waitFor(); // opened by address: signed out
    await button(page, "Account menu").click();
    await page.getByRole("menuitem", { name: "Log out" }).click();
    await g.at("Log in");
    await second.getByRole("heading", { level: 1, name: "Log in" }).waitFor();
    for (const tab of [page, second]) {
      await tab.goBack();
      await tab.getByRole("heading", { level: 1, name: "Log in" }).waitFor();
      expect(await tab.evaluate("document.body.innerText + JSON.stringify(sessionStorage)")).not.toMatch(/Team|krses_/);
    }
    await g.expectClean();
  });
});
