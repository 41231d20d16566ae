// Sessions in the browser: what ends while a form is half filled, switches in another tab, log-out everywhere.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn } from "../../../harness/browser/dashboard.ts";
import { button, dialog, field, fillLogin, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { auditRows, logIn, memberOf, PASSWORD } from "../../../harness/instances/people.ts";

describe.runIf(hasBrowser)("a session in the dashboard", () => {
  const suite = useBrowserSuite({ password_min: "10" });

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
    await expect.poll(() => again.getByLabel("Email", { exact: true }).inputValue()).toBe(at.owner.email);
    await expect.poll(() => again.locator("form .buttons button").allInnerTexts()).toEqual(["Log out", "Log in"]);
    await page.keyboard.type(PASSWORD); // the field that is empty has the focus
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Save this key now" }).waitFor();
    const { body } = await suite.instance.call(at.key, "GET /v1/keys?env=test");
    expect(body.data.map((key: { name: string }) => key.name)).toEqual(["Half filled"]);
    await page.getByLabel("I have stored it").check();
    await button(page, "Done").click();
    await g.at("Half filled");
    await g.expectClean();
  });

  it("of another person or in another workspace discards a half-filled form, and leaving the form asks first", async () => {
    const at = await shop(suite.instance);
    const admin = await memberOf(suite.instance, at, "admin");
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "settings" });
    const { page } = g;
    const questions: string[] = [];
    page.on("dialog", (asked) => {
      questions.push(asked.message());
      void asked.dismiss();
    });
    await field(page, "Workspace name").fill("Typed by the owner");
    await button(page, "Account menu").click();
    await page.getByRole("menuitem", { name: "Log out" }).click();
    await expect.poll(() => questions).toEqual(["Discard what you entered?"]);
    // Staying leaves no one-time token in the history.
    await page.evaluate("visited = []; addEventListener('hashchange', ({ newURL }) => visited.push(newURL))");
    await page.evaluate("location.hash = '#/reset?token=krpr_unused'");
    await expect.poll(() => questions.length).toBe(2);
    await page.evaluate("history.back()");
    await expect.poll(() => questions.length).toBe(3);
    await expect.poll(() => page.evaluate("visited.at(-1)")).toMatch(/#\/reset$/);
    const again = dialog(page, "Log in again");
    const save = async (name: string): Promise<void> => {
      await field(page, "Workspace name").fill(name);
      await suite.instance.sql("update sessions set revoked_at = 1 where revoked_at is null", []);
      await button(page, "Save").click();
      await again.waitFor();
    };
    const logInAgain = async (email: string): Promise<void> => {
      await again.getByLabel("Email", { exact: true }).fill(email);
      await again.getByLabel("Password", { exact: true }).fill(PASSWORD);
      await again.getByRole("button", { name: "Log in" }).click();
    };
    await save("Typed by the owner");
    await again.getByRole("button", { name: "Log out" }).click();
    await expect.poll(() => questions.length).toBe(4);
    await logInAgain(admin.email);
    await g.at("Home");
    await g.show("settings");
    await expect.poll(() => field(page, "Workspace name").inputValue()).toBe("Team");
    // A refusal that arrives after the login of another person.
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const sent: string[] = [];
    await page.route("**/v1/workspace", async (route) => {
      if (route.request().method() !== "PATCH") return route.continue();
      sent.push(route.request().postData() ?? "");
      const response = await route.fetch();
      void page.evaluate("dispatchEvent(new Event('focus'))"); // another read is refused at once
      await held;
      await route.fulfill({ response });
    });
    await save("Typed by the admin");
    await logInAgain(at.owner.email);
    await g.at("Home");
    const refused = page.waitForResponse((response) => response.request().method() === "PATCH");
    release();
    expect((await refused).status()).toBe(401);
    await g.show("settings");
    await expect.poll(() => field(page, "Workspace name").inputValue()).toBe("Team");
    expect(sent).toEqual([expect.stringContaining('"Typed by the admin"')]);
    await page.unroute("**/v1/workspace");
    await save("Typed by the owner");
    await suite.instance.sql("delete from memberships where user_id = $1", [admin.id]);
    await logInAgain(admin.email);
    await g.at("Choose a workspace");
    await expect.poll(() => page.getByText("You are not in a workspace yet.").count()).toBe(1);
    expect(questions.length).toBe(4);
    const changes = (await auditRows(suite.instance, at.id)).map(({ action }) => action);
    expect(changes).not.toContain("workspace.updated");
    await g.expectClean();
  });

  it("that another tab moved to another workspace writes nothing, and can be brought back", async () => {
    const at = await shop(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "portal" });
    const { page } = g;
    await field(page, "Origin").fill("https://app.example.com");
    const other = await suite.instance.call(at.owner.session, "POST /v1/workspaces", {
      name: "Other",
      slug: `${at.slug}-b`,
    });
    await suite.instance.sql("update sessions set active_workspace_id = $1 where revoked_at is null", [
      other.body.workspace.id,
    ]);
    await button(page, "Add origin").click();
    await page.getByRole("dialog", { name: "This session is in another workspace now" }).waitFor();
    await button(page, "Return to Team").click();
    await page.getByRole("alert").getByText("Nothing was changed. Try again.", { exact: true }).waitFor();
    await button(page, "Add origin").click();
    await page.getByRole("list", { name: "Origins" }).getByText("https://app.example.com").waitFor(); // reads are alive
    const rows = await suite.instance.sql("select embed_origins from workspaces where slug in ($1, $2) order by slug", [
      at.slug,
      `${at.slug}-b`,
    ]);
    expect(rows.map((row) => row.embed_origins)).toEqual(['["https://app.example.com"]', "[]"]);
    // A switch that failed can be repeated.
    const address = (slug: string, name: string): string => `${suite.instance.url}/#/w/${slug}/live/${name}`;
    await page.route("**/current/workspace", (route) => route.fulfill({ status: 429, json: {} }));
    await page.goto(address(`${at.slug}-b`, "home"));
    await g.at("Choose a workspace");
    await page.unroute("**/current/workspace");
    await button(page, "Try again").click();
    await g.at("Home");
    // One that is left while it is under way changes nothing on the screen.
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const switches: string[] = [];
    await page.route("**/current/workspace", async (route) => {
      switches.push(route.request().postData() ?? "");
      await held;
      await route.continue();
    });
    await page.goto(address(at.slug, "keys"));
    await expect.poll(() => switches.length).toBe(1);
    await page.goBack();
    release();
    await expect.poll(() => switches.length).toBe(2);
    expect(switches[1]).toContain(other.body.workspace.id);
    const active =
      "select active_workspace_id as id from sessions s join users u on u.id = s.user_id where u.email = $1";
    await expect
      .poll(async () => (await suite.instance.sql(active, [at.owner.email])).some(({ id }) => id === at.id))
      .toBe(false);
    await g.at("Home");
    await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
    // What was confirmed is gone with the session.
    await button(page, "Account menu").click();
    await page.getByRole("menuitem", { name: "Log out" }).click();
    await g.at("Log in");
    await fillLogin(page, at.owner.email, PASSWORD);
    await button(page, "Log in").click();
    await button(page, "Account menu").click();
    await page.getByRole("menuitem", { name: "Notifications" }).click();
    await dialog(page, "Notifications").getByText("Nothing yet.").waitFor();
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
    const [start] = await Promise.all([
      page.context().waitForEvent("page"),
      page.getByRole("link", { name: "Keyrack" }).click({ modifiers: ["Control"] }),
    ]);
    await start.getByRole("heading", { level: 1, name: "Home" }).waitFor();
    const third = await page.context().newPage();
    await third.goto(page.url());
    await third.getByRole("heading", { level: 1, name: "Log in" }).waitFor(); // opened by address: signed out
    await button(page, "Account menu").click();
    await page.getByRole("menuitem", { name: "Log out" }).click();
    await g.at("Log in");
    await start.getByRole("heading", { level: 1, name: "Log in" }).waitFor();
    await second.getByRole("heading", { level: 1, name: "Log in" }).waitFor();
    for (const tab of [page, second]) {
      await tab.goBack();
      await tab.getByRole("heading", { level: 1, name: "Log in" }).waitFor();
      expect(await tab.evaluate("document.body.innerText + JSON.stringify(sessionStorage)")).not.toMatch(/Team|krses_/);
    }
    await g.expectClean();
  });

  it("locks when it was idle, in every tab and when opened again, and then stays in the tab as before", async () => {
    const at = await shop(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "settings" });
    const { page } = g;
    const [second] = await Promise.all([
      page.context().waitForEvent("page"),
      page.getByRole("link", { name: "Members" }).click({ modifiers: ["Control"] }),
    ]);
    await second.getByRole("heading", { level: 1, name: "Members" }).waitFor();
    const leave = (tab: Page) =>
      tab.evaluate("localStorage.setItem('keyrack:/:active_at', String(Date.now() - 31 * 60_000))");
    const logInAgain = async (): Promise<void> => {
      await field(page, "Password").fill(PASSWORD);
      await button(page, "Log in").click();
      await g.at("Settings");
    };
    await leave(page);
    for (const tab of [page, second]) {
      if (tab === page) await tab.evaluate("dispatchEvent(new Event('focus'))");
      else await tab.keyboard.press("Shift");
      await dialog(tab, "Log in again").getByText("You were away for a while").waitFor();
      await expect.poll(() => tab.getByRole("heading", { level: 1 }).count()).toBe(0); // hidden
      expect(await tab.evaluate("JSON.stringify(sessionStorage)")).not.toContain("krses_");
    }
    await logInAgain();
    // A tab that the browser had discarded.
    const address = page.url();
    await page.goto("about:blank");
    await leave(second);
    const sent: string[] = [];
    page.on("request", (request) => sent.push(`${request.method()} ${new URL(request.url()).pathname}`));
    await page.goto(address);
    await dialog(page, "Log in again").getByText("You were away for a while").waitFor();
    await expect.poll(() => sent).toContain("DELETE /v1/auth/sessions/current");
    expect(sent.filter((text) => text.startsWith("GET /v1/"))).toEqual([]); // nothing of the workspace was read
    await logInAgain();
    await page.reload();
    await g.at("Settings");
    await g.expectClean();
  });

  it("is listed under Account, where a refusal is shown beside what was pressed", async () => {
    const at = await shop(suite.instance);
    for (let i = 0; i < 2; i++) await logIn(suite.instance, at.owner.email);
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "home", env: "test" });
    const { page } = g;
    await page.goto(`${suite.instance.url}/#/account`);
    const keys = page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Keys" });
    await expect.poll(() => keys.getAttribute("href")).toMatch(/\/test\/keys$/); // test data stay test data
    const ends = page.getByRole("row").getByRole("button", { name: "End session" });
    await ends.first().waitFor();
    const others = await ends.count();
    const refused = { error: { code: "conflict", message: "Not now.", details: [], request_id: "r" } };
    await page.route("**/v1/auth/sessions/*", (route) => route.fulfill({ status: 409, json: refused }));
    await ends.first().click();
    await page.getByRole("row").getByRole("alert").getByText("Not now.").waitFor();
    await button(page, "End other sessions").click();
    await expect.poll(() => page.getByText("Not now.").count()).toBe(2);
    await page.unroute("**/v1/auth/sessions/*");
    await ends.first().click();
    await page.getByText("Session ended.").first().waitFor();
    await expect.poll(() => ends.count()).toBe(others - 1);
    // The focus is on the next row, whose button looks the same.
    await expect.poll(() => page.evaluate("document.activeElement.innerText")).toBe("End session");
    await page.getByText("At least 10 characters. Your other sessions end.").waitFor();
    await field(page, "Current password").fill("not the password");
    await field(page, "New password").fill("quite another set of words");
    await button(page, "Change password").click();
    await page.getByText("The current password is incorrect.").waitFor();
    await field(page, "Current password").fill(PASSWORD);
    await button(page, "Change password").click();
    await expect.poll(() => field(page, "Current password").inputValue()).toBe("");
    await expect.poll(() => field(page, "New password").inputValue()).toBe("");
    await expect.poll(() => ends.count()).toBe(0);
    // One of the others has ended by itself meanwhile.
    await logIn(suite.instance, at.owner.email, "quite another set of words");
    const { session_id } = await logIn(suite.instance, at.owner.email, "quite another set of words");
    await g.show("home", "test");
    await page.goto(`${suite.instance.url}/#/account`);
    await ends.nth(1).waitFor();
    await suite.instance.sql("update sessions set revoked_at = 1 where id = $1", [session_id]);
    await button(page, "End other sessions").click();
    await page.getByText("All other sessions ended.").first().waitFor();
    await expect.poll(() => ends.count()).toBe(0);
    await page.context().setOffline(true);
    await page.getByText(/^Offline/).waitFor();
    await expect.poll(() => button(page, "End other sessions").getAttribute("aria-disabled")).toBe("true");
  });
});
