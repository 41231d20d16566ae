// Keys in the dashboard: create, read, rotate and revoke, for those who may; a secret is shown once.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { expectAccessible, expectAccessibleInLooks, LOOKS, setLook } from "../../../harness/browser/pages.ts";
import { button, colours, field, REASON, useBrowserSuite } from "../../../harness/browser/suite.ts";

const HOSTILE = '"><img src=x onerror=alert(1)>\u202etxt';
const dialog = (page: Page, name: string | RegExp) => page.getByRole("dialog", { name });

/** On paper a list of test keys has its band and every column, also those without room in the window, and no buttons. */
async function expectPrintable(page: Page): Promise<void> {
  await setLook(page, LOOKS[1][1]);
  await page.emulateMedia({ media: "print" });
  await page.evaluate("dispatchEvent(new Event('beforeprint'))");
  await page.locator(".print-foot", { hasText: page.url() }).waitFor(); // where and when it was read
  for (const name of ["Project", "Scopes", "Expires", "Created"])
    await page.getByRole("columnheader", { name }).waitFor();
  await page.getByText("Test data").waitFor();
  const controls = page.locator("button:visible, .button:visible, select:visible, input:visible");
  await expect.poll(() => controls.count()).toBe(0);
  await page.emulateMedia({ media: "screen" });
}

describe.runIf(hasBrowser)("keys in the dashboard", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("creates a key by keyboard, and loses its text neither by Escape, the palette nor Back before it is stored", async () => {
    const at = await shop(suite.instance, HOSTILE);
    const g = await open(at, { page: "home" });
    const { page } = g;
    await page.emulateMedia({ reducedMotion: "reduce" }); // colours change at once
    await page.getByRole("link", { name: "Keys", exact: true }).click();
    await page.getByText("No live keys yet").waitFor();
    const tests = page.getByRole("link", { name: "View test keys" });
    await expect.poll(() => tests.getAttribute("href")).toContain("/test/keys");
    const pointed = await colours(page, ".main-nav [aria-current]");
    await page.mouse.move(600, 500);
    await expect.poll(() => colours(page, ".main-nav [aria-current]")).toBe(pointed);
    const command = page.getByRole("region", { name: "command" });
    await expect.poll(() => command.evaluate((pre) => pre.scrollWidth - pre.clientWidth)).toBe(0); // nothing is behind Copy
    await button(page, "Create key").first().focus();
    await page.keyboard.press("Enter");
    await dialog(page, "Create key").waitFor();
    await expect.poll(() => field(page, "Project").inputValue()).toBe("Orders"); // the only one
    const sent: string[] = [];
    page.on("request", (request) => sent.push(request.method()));
    await button(page, "Create key").last().click();
    await page.getByText("Tenant is required.").waitFor();
    expect(sent).not.toContain("POST");
    await expect.poll(() => page.evaluate("document.activeElement.role")).toBe("combobox");
    await page.keyboard.type("glob");
    await page.getByRole("option", { name: /globex/ }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await expect.poll(() => page.getByText("Tenant is required.").count()).toBe(0);
    await page.getByLabel(/^Name/).fill("Production");
    await page.getByLabel(/^Scopes/).fill("orders:read\norders:write");
    await button(page, "Create key").last().click();
    const reveal = dialog(page, "Save this key now");
    await reveal.waitFor();
    page.on("dialog", (asked) => void asked.dismiss()); // "Leave without saving?" No.
    for (let i = 0; i < 5; i++) await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    expect(await dialog(page, "Command palette").count()).toBe(0);
    await page.evaluate("history.back()");
    await expect.poll(() => page.evaluate("location.hash")).toMatch(/keys$/);
    await reveal.waitFor();
    const all = (): Promise<string> =>
      page.evaluate(
        "document.documentElement.outerHTML + JSON.stringify([localStorage, sessionStorage, history.state])",
      );
    expect(/kr_live_[A-Za-z0-9_-]{32}/.test(await all())).toBe(false); // masked
    await button(page, "Show").click();
    const secret = await reveal.locator(".secret-text").innerText();
    expect(secret).toMatch(/^kr_live_[A-Za-z0-9_-]{32}[0-9a-f]{8}$/);
    const disabled = await colours(page, "dialog .has-reason .button");
    await button(page, "Done").click({ force: true });
    await expect.poll(() => colours(page, "dialog .has-reason .button")).toBe(disabled); // and not the ground of a button that can be pressed
    await expect.poll(() => page.evaluate(REASON)).toEqual({ isShown: true, isInWindow: true, scrolls: false });
    await reveal.waitFor();
    await page.getByLabel("I have stored it").check();
    await button(page, "Done").click();
    await g.at("Production");
    expect((await all()).includes(secret)).toBe(false);
    const { body } = await suite.instance.call(at.owner.session, "GET /v1/keys?env=live");
    expect(body.data).toMatchObject([{ name: "Production", scopes: ["orders:read", "orders:write"], env: "live" }]);
    await page.getByText(HOSTILE).waitFor();
    await g.show("keys");
    await page.getByRole("row").getByText(HOSTILE).waitFor();
    await g.expectClean();
  });

  it("finds keys by words and by state, and looks a pasted key up without putting it into the address", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const make = async (name: string): Promise<{ id: string; key: string }> =>
      (await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name })).body;
    const [, staging] = [await make("Production"), await make("Staging")];
    await suite.instance.call(at.key, `POST /v1/keys/${staging.id}/disable`, { reason: "unpaid" });
    const g = await open(at, { page: "keys" });
    const { page } = g;
    const names = (): Promise<string[]> => page.getByRole("rowheader").allInnerTexts();
    const shows = async (...expected: string[]): Promise<void> => {
      await expect.poll(async () => (await names()).map((text) => text.split("\n")[0])).toEqual(expected);
    };
    await shows("Staging", "Production");
    await page.getByRole("searchbox", { name: "Search keys" }).fill("prod");
    await shows("Production");
    expect(page.url()).toContain("q=prod");
    await button(page, "Clear filters").click();
    await page.getByRole("combobox", { name: "Filter by state" }).selectOption("disabled");
    await shows("Staging");
    await button(page, "Clear filters").click();
    await page.getByRole("textbox", { name: "Filter by scope" }).fill("orders:read"); // no project lists its scopes
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "No keys match" }).waitFor();
    await expect.poll(() => button(page, "Clear filters").count()).toBe(1);
    await button(page, "Clear filters").click();
    await page.getByRole("combobox", { name: "Filter by tenant" }).fill("glob");
    await page.getByRole("option", { name: /globex/ }).click();
    await expect.poll(() => page.url()).toContain(`tenant=${at.tenant_id}`);
    await button(page, "Clear filters").click();
    await page.getByRole("searchbox", { name: "Search keys" }).fill(`KEY=${at.key}`);
    await dialog(page, "Look up a key")
      .getByText(/^This is a secret key .* It was not sent anywhere\.$/)
      .waitFor();
    await button(page, "Done").click();
    await button(page, "Look up a key").click();
    await field(page, "Key").fill(staging.key);
    await page.keyboard.press("Enter");
    await dialog(page, "Look up a key").getByRole("status").getByText("It is disabled.").waitFor();
    await expect.poll(() => field(page, "Another key").inputValue()).toBe(""); // the next one can be pasted
    await page.evaluate("document.activeElement.blur()");
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
    await page.getByRole("searchbox", { name: "Search keys" }).fill(staging.key);
    await dialog(page, "Look up a key").getByText("It is disabled.").waitFor();
    expect(page.url()).not.toContain("kr_live_");
    const kept = await page.evaluate("JSON.stringify([localStorage, sessionStorage, history.state])");
    expect(kept).not.toContain(staging.key);
    await expect.poll(() => page.getByRole("searchbox", { name: "Search keys" }).inputValue()).toBe("");
    await expectAccessible(page);
    await page.getByRole("link", { name: "Open this key" }).click();
    await g.at("Staging");
    await g.expectClean();
  });

  it("lets a member look, and sends nothing when a disabled action is pressed", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const made = await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    await using g = await signedIn(suite.browser, suite.instance, at, { role: "member", page: `keys/${made.body.id}` });
    const { page } = g;
    const writes: string[] = [];
    page.on("request", (request) => request.method() !== "GET" && writes.push(request.url()));
    for (const name of ["Edit", "Rotate", "Revoke"]) {
      await button(page, name).focus();
      await page.keyboard.press("Enter");
      const reason = await button(page, name).evaluate(
        (element: {
          getAttribute(name: string): string | null;
          ownerDocument: { getElementById(id: string): { innerText: string } | null };
        }) => element.ownerDocument.getElementById(element.getAttribute("aria-describedby") ?? "")?.innerText,
      );
      expect(reason).toBe("Members can view but not change. Ask an owner or admin.");
    }
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.keyboard.press("Control+k");
    await field(page, "Search or jump to").fill("create key");
    await page.getByRole("option", { name: "Create key", disabled: true }).waitFor();
    await page.keyboard.press("Enter");
    await expect.poll(() => dialog(page, "Command palette").count()).toBe(1);
    await page.keyboard.press("Escape");
    expect(writes).toEqual([]);
    // More rights are there when the person returns to the page.
    const { body } = await suite.instance.call(at.owner.session, "GET /v1/members");
    const [{ user_id }] = body.data.filter(({ role }: { role: string }) => role === "member");
    await suite.instance.call(at.owner.session, `PATCH /v1/members/${user_id}`, { role: "admin" });
    await page.evaluate("dispatchEvent(new Event('focus'))");
    await expect.poll(() => button(page, "Edit").getAttribute("aria-disabled")).toBeNull();
    await g.expectClean();
  });

  it("follows a revocation node by node, and pauses while the page is hidden", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const made = await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    const poll = async (node: string): Promise<void> => {
      const { body } = await suite.instance.call(at.key, `GET /v1/projects/${project_id}`);
      const query = `project_id=${project_id}&node=${node}&since=${body.policy_version}`;
      await suite.instance.call(at.key, `GET /v1/policy/delta?${query}`);
    };
    for (const node of ["one", "two", "slow"]) await poll(node);
    await using g = await signedIn(suite.browser, suite.instance, at, { page: `keys/${made.body.id}` });
    const { page } = g;
    let asked = 0;
    page.on("request", (request) => request.url().includes("/v1/propagation") && asked++);
    await g.at("CI");
    await page.clock.install();
    await button(page, "Revoke").click();
    await button(page, "Revoke key").click();
    const revoked = dialog(page, "Key revoked");
    await revoked.getByText("0 of 3 nodes have the change.").waitFor();
    await poll("one");
    await poll("two");
    await revoked.getByText("2 of 3 nodes have the change.").waitFor();
    const states = revoked.getByRole("list", { name: "Nodes" }).getByRole("listitem");
    await expect
      .poll(() => states.filter({ hasText: "Waiting" }).allInnerTexts())
      .toEqual([expect.stringMatching(/^slow/)]);

    await page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })");
    await page.waitForLoadState("networkidle");
    const before = asked;
    await page.clock.runFor(10_000);
    expect(asked).toBe(before);
    await poll("slow");
    await page.evaluate("delete document.hidden");
    await page.clock.runFor(10_000);
    await revoked.getByText("3 of 3 nodes have the change.").waitFor();
    await revoked.getByRole("status").getByText("All 3 nodes have the change.").waitFor({ state: "attached" });
    await g.expectClean();
  });

  it("passes axe and fits the window in every look", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const body = { project_id, tenant_id, env: "test", name: "CI", scopes: ["a:b", "c:d", "e:f"] };
    const made = await suite.instance.call(at.key, "POST /v1/keys", body);
    const g = await open(at, { page: "keys", env: "live" });
    await g.page.getByText("No live keys yet").waitFor();
    await expectAccessibleInLooks(g.page);
    await g.show("keys", "test");
    await g.page.getByRole("link", { name: /CI/ }).waitFor();
    await expectAccessibleInLooks(g.page);
    await expectPrintable(g.page);
    await button(g.page, "Create key").first().click();
    await dialog(g.page, "Create key").waitFor();
    await expectAccessibleInLooks(g.page);
    await g.page.keyboard.press("Escape");
    await g.show(`keys/${made.body.id}`, "test");
    await g.at("CI");
    await g.page.getByText("Not used in the last 30 days.").waitFor();
    await expectAccessibleInLooks(g.page);
    await g.expectClean();
  });
});
