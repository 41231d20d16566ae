// Tokens of the portal: renewal, revocation, origins, and a browser that goes offline.
import { describe, expect, it } from "vitest";
import { hasBrowser, visit } from "../../../harness/browser/browser.ts";
import { useBrowserSuite } from "../../../harness/browser/suite.ts";
import { vendorPage } from "../../../harness/browser/vendor-page.ts";

describe.runIf(hasBrowser)("<keyrack-portal> tokens", () => {
  const suite = useBrowserSuite();

  it("renews the token at refresh_after without interruption", async () => {
    const workspace = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, workspace);
    const context = await suite.browser.newContext();
    const page = await context.newPage();
    await page.clock.install();
    await page.goto(site.origin);
    await page.getByText("No keys yet").waitFor();
    expect(site.minted).toBe(1);
    // The page's clock also runs by itself: the two steps leave time for a slow machine.
    suite.instance.clock.advance(200_000);
    await page.clock.fastForward(200_000);
    expect(site.minted).toBe(1);
    const renewed = page.waitForResponse(`${site.origin}/embed-token`);
    suite.instance.clock.advance(40_500);
    await page.clock.fastForward(40_500);
    await renewed;
    expect(site.minted).toBe(2);
    suite.instance.clock.advance(200_000); // the first token has expired by now
    const listed = page.waitForResponse(/include_revoked=true/);
    await page.getByLabel("Show revoked keys").check();
    expect((await listed).status()).toBe(200);
    expect(site.minted).toBe(2);
    await context.close();
  });

  it("reports when a token set by the page is due, and uses the next one", async () => {
    const workspace = await suite.instance.workspace();
    await workspace.mint({ name: "Kept" });
    await using site = await vendorPage(suite.instance, workspace);
    const mint = async (): Promise<string> =>
      (await workspace.call("sk_owner", "POST /v1/embed_tokens", site.want)).body.token as string;
    const context = await suite.browser.newContext();
    const page = await context.newPage();
    await page.clock.install();
    await page.goto(site.origin);
    await page.evaluate(`(() => {
      document.querySelector("keyrack-portal").remove();
      const portal = document.createElement("keyrack-portal");
      Object.assign(portal, { baseUrl: ${JSON.stringify(suite.instance.url)}, token: ${JSON.stringify(await mint())} });
      portal.addEventListener("keyrack-token-expiring", () => { document.title = "due"; });
      document.body.append(portal);
    })()`);
    await page.getByRole("heading", { name: "Kept" }).waitFor();
    const listedAgain = page.waitForResponse("**/v1/embed/keys?*");
    await page.evaluate(`document.body.prepend(document.querySelector("keyrack-portal"))`); // as frameworks do
    await listedAgain;
    await page.getByRole("heading", { name: "Kept" }).waitFor();
    await page.clock.fastForward(240_500);
    await expect.poll(() => page.title()).toBe("due");
    suite.instance.clock.advance(300_000);
    await page.getByLabel("Show revoked keys").click();
    await page.getByText("Your access to this page has ended.").waitFor();
    await page.evaluate(`document.querySelector("keyrack-portal").token = ${JSON.stringify(await mint())}`);
    await page.getByRole("heading", { name: "Kept" }).waitFor();
    await expect.poll(() => page.locator("keyrack-portal").getAttribute("token")).toBeNull();
    // Focus survives the next token, and the answer of a proxy is an error like others.
    await page.getByRole("button", { name: "Rotate: Kept" }).focus();
    const listed = page.waitForResponse("**/v1/embed/keys?*");
    await page.evaluate(`document.querySelector("keyrack-portal").token = ${JSON.stringify(await mint())}`);
    await listed;
    const focused = `document.querySelector("keyrack-portal").shadowRoot.activeElement?.ariaLabel`;
    await expect.poll(() => page.evaluate(focused)).toBe("Rotate: Kept");
    const headers = { ...corsOf(site.origin), "content-type": "text/html" };
    await page.route("**/v1/embed/session", (route) => route.fulfill({ status: 200, headers, body: "<p>Log in" }));
    await page.getByLabel("Show revoked keys").click();
    await page.getByText("Cannot reach the server.").waitFor();
    await context.close();
  });

  it("keeps showing a new key until it is saved, even when access ends meanwhile", async () => {
    const workspace = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, workspace);
    await using v = await visit(suite.browser, site.origin);
    const { page } = v;
    await page.getByRole("button", { name: "Create key" }).click();
    await page.route("**/v1/embed/keys?*", (route) => route.fulfill({ status: 401, headers: corsOf(site.origin) }));
    site.open = false;
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    await page.getByText("Your access to this page has ended.").waitFor({ state: "attached" });
    await expect.poll(() => page.getByRole("textbox", { name: "Your key" }).inputValue()).toMatch(/^kr_live_/);
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
  });

  it("fetches a new token after a 401, and continues if the page provides one", async () => {
    const workspace = await suite.instance.workspace();
    await workspace.mint({ name: "Kept" });
    await using site = await vendorPage(suite.instance, workspace);
    await using v = await visit(suite.browser, site.origin);
    await v.page.getByRole("heading", { name: "Kept" }).waitFor();
    await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/embed_tokens/revoke`);
    await v.page.getByLabel("Show revoked keys").check();
    await expect.poll(() => site.minted).toBe(2);
    await v.page.getByRole("heading", { name: "Kept" }).waitFor();
    expect(await v.page.getByRole("alert").count()).toBe(0);
  });

  it("ends at the next action after a revocation, and hides everything", async () => {
    const workspace = await suite.instance.workspace();
    await workspace.mint({ name: "Secret project" });
    await using site = await vendorPage(suite.instance, workspace);
    await using v = await visit(suite.browser, site.origin);
    const { page } = v;
    await page.getByRole("button", { name: "Revoke: Secret project" }).click();
    await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/embed_tokens/revoke`);
    site.open = false;
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page.getByText("Your access to this page has ended.").waitFor();
    expect(await page.getByRole("heading", { name: "Secret project" }).count()).toBe(0);
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(await workspace.actions()).not.toContain("api_key.revoked");
    site.open = true;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "Secret project" }).waitFor();
  });

  it("is rejected on an unregistered origin, and on one the token is not for", async () => {
    const workspace = await suite.instance.workspace();
    await workspace.mint({ name: "Hidden" });
    await using site = await vendorPage(suite.instance, workspace);
    await using other = await vendorPage(suite.instance, workspace, { register: false });
    await using v = await visit(suite.browser, other.origin);
    await v.page.getByText("Cannot reach the server.").waitFor();
    await workspace.call("sk_owner", "PATCH /v1/workspace", { embed_origins: [site.origin, other.origin] });
    other.want.origins = [site.origin];
    await v.page.reload();
    await v.page.getByText("This page is not allowed to manage keys.").waitFor();
    expect(await v.page.getByRole("heading", { name: "Hidden" }).count()).toBe(0);
  });

  it("shows when the browser is offline, and recovers by itself", async () => {
    const workspace = await suite.instance.workspace();
    await workspace.mint({ name: "Kept" });
    await using site = await vendorPage(suite.instance, workspace);
    await using v = await visit(suite.browser, site.origin);
    await v.page.getByRole("heading", { name: "Kept" }).waitFor();
    await v.context.setOffline(true);
    await v.page.getByText("You are offline.").waitFor();
    await v.context.setOffline(false);
    await expect.poll(() => v.page.getByText("You are offline.").count()).toBe(0);
    await v.page.getByRole("heading", { name: "Kept" }).waitFor();
  });
});

function corsOf(origin: string): Record<string, string> {
  return { "access-control-allow-origin": origin };
}
