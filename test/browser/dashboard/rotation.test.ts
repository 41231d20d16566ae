// A key is rotated, disabled and revoked, and each change is followed to the nodes.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { button, field, useBrowserSuite } from "../../../harness/browser/suite.ts";

const dialog = (page: Page, name: string | RegExp) => page.getByRole("dialog", { name });

describe.runIf(hasBrowser)("rotation and revocation in the dashboard", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("rotates and revokes a key, and says what reaches the verifiers", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const made = await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    const g = await open(at, { page: `keys/${made.body.id}` });
    const { page } = g;
    await g.at("CI");
    await button(page, "Rotate").click();
    await button(page, "Rotate key").click();
    await dialog(page, "Save this key now").waitFor();
    await page.getByLabel("I have stored it").check();
    await button(page, "Done").click();
    await dialog(page, "Key rotated").waitFor();
    await button(page, "Open the new key").click();
    await page.getByText("Created by rotating").getByRole("link", { name: /^CI/ }).click();
    await page.getByText("Being replaced").waitFor();
    await page.getByText(/^It was rotated: its successor works, and this key stops on /).waitFor();
    await g.show("keys");
    await page.getByRole("row", { name: /Being replaced/ }).waitFor();
    const heights = "[...document.querySelectorAll('tbody tr')].map((row) => row.offsetHeight)";
    await expect.poll(async () => new Set(await page.evaluate<number[]>(heights)).size).toBe(1);
    await g.show("keys?state=expiring"); // without its successor
    await page.getByRole("row", { name: /Being replaced/ }).waitFor();
    await expect.poll(() => page.locator("tbody").getByRole("row").count()).toBe(1);
    await g.show(`keys/${made.body.id}`);
    await page.locator("dl").getByRole("link", { name: /^CI/ }).click();
    await page.getByText("Requests with this key are allowed.").waitFor();
    await button(page, "Disable").click();
    await button(page, "Disable key").click();
    await dialog(page, "Key disabled").waitFor();
    await button(page, "Done").click();
    await page.getByText(/Disabled since/).waitFor();
    await page.getByRole("heading", { name: "Why is this key refused?" }).waitFor();
    await page.getByRole("list", { name: "Reasons" }).getByText("It is disabled.").waitFor();
    await button(page, "Enable").click();
    await button(page, "Enable key").click();
    await dialog(page, "Key enabled").waitFor();
    await button(page, "Done").click();
    await page.route("**/usage?days=*", (route) => route.fulfill({ status: 409, json: {} }));
    await button(page, "Revoke").click();
    await dialog(page, "Revoke CI").getByText("How much it is used could not be looked up.").waitFor();
    await page.unroute("**/usage?days=*");
    await button(page, "Cancel").click();
    await button(page, "Revoke").click();
    await dialog(page, "Revoke CI").getByText("Not used in the last 30 days.").waitFor();
    await expect.poll(() => page.evaluate("document.activeElement.innerText")).toBe("Cancel");
    await field(page, "Reason (optional)").fill("leaked");
    await button(page, "Revoke key").click();
    await dialog(page, "Key revoked").waitFor();
    await button(page, "Done").click();
    await page.getByText(/Revoked on .* Reason: leaked/).waitFor();
    await expect.poll(() => page.locator(".state-line bdi").innerText()).toBe("leaked"); // apart from our own words
    const { body } = await suite.instance.call(at.owner.session, "GET /v1/keys?include_revoked=true");
    expect(body.data.map((key: { revoked_reason: string | null }) => key.revoked_reason)).toEqual(["leaked", null]);
    await g.expectClean();
  });

  it("counts the time that nodes take from the change, not from the view of them", async () => {
    const at = await shop(suite.instance);
    const { project_id, tenant_id } = at;
    const made = await suite.instance.call(at.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    await using g = await signedIn(suite.browser, suite.instance, at, { page: `keys/${made.body.id}` });
    const { page } = g;
    const poll = `GET /v1/policy/delta?project_id=${project_id}&node=api-1&since=0`;
    await suite.instance.call(at.key, poll);
    await page.route("**/v1/propagation?*", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), nodes_omitted: 1_200 } });
    });
    await g.at("CI");
    await page.clock.install();
    await button(page, "Rotate").click();
    await button(page, "Rotate key").click();
    await page.getByLabel("I have stored it").check();
    const { body } = await suite.instance.call(at.key, `GET /v1/projects/${project_id}`);
    await suite.instance.call(at.key, poll.replace(/0$/, String(body.policy_version)));
    await page.clock.fastForward(150_000);
    await button(page, "Done").click();
    const nodes = dialog(page, "Key rotated").getByRole("listitem");
    await expect
      .poll(() => nodes.allInnerTexts())
      .toEqual([expect.stringMatching(/^api-1\s+Acknowledged within [23] minutes$/), "and 1,200 more"]);
    await expectAccessible(page);
    await g.expectClean();
  });
});
