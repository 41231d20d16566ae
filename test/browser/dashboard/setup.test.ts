// Setup links that do not work, and leaving before the first keys are stored. One that works is in
// ../first-minutes.test.ts.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { guest } from "../../../harness/browser/pages.ts";
import { button, field, fillSetup, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { PASSWORD } from "../../../harness/instances/people.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";
import { issueSetupLink } from "../../../src/domain/workspaces/setup-tokens.ts";

describe.runIf(hasBrowser)("a setup link", () => {
  const suite = useBrowserSuite();

  it("keeps a link that a weak password did not use up, and treats used and foreign links alike", async () => {
    await using own = await testInstance("sqlite");
    const link = (await issueSetupLink(own.app.services)).url;
    await using g = await guest(suite.browser);
    await g.open(`${own.url}/#/setup?token=krset_made_up`);
    await fillSetup(g.page);
    await button(g.page, "Create workspace").click();
    await g.at("This setup link has expired or was already used");
    await g.page.getByText("keyrack setup link").waitFor();
    await g.open(link);
    await fillSetup(g.page, "password1234");
    await button(g.page, "Create workspace").click();
    await g.page.getByText("Password is one of the most common passwords.").waitFor();
    await field(g.page, "Password").fill(PASSWORD);
    await button(g.page, "Create workspace").click();
    await g.at("Ready");
    expect((await own.call(null, "GET /v1/setup")).body.open).toBe(false);
    const { page } = g;
    const asked: string[] = [];
    page.on("dialog", (question) => {
      asked.push(question.message());
      void question.dismiss();
    });
    // One of two keys is stored: leaving would lose the other.
    const downloads = page.waitForEvent("download");
    await button(page, "Download .env").first().click();
    await downloads;
    await page.getByRole("link", { name: "Open the workspace" }).click();
    await expect.poll(() => asked).toEqual(["Leave without storing the key? It is not shown again."]);
    await g.at("Ready");
    // Without the clipboard, what is selected for copying runs as it is.
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
    await button(page, "Copy Terminal snippet").click();
    await expect.poll(() => page.evaluate<string>("String(getSelection())")).toMatch(/Bearer kr_test_[\w-]{40}"/);
    await page.emulateMedia({ media: "print" });
    await expect.poll(() => page.locator("code:visible", { hasText: "krsk_test_" }).count()).toBe(0);
    await page.emulateMedia({ media: "screen" });
    await button(page, "Download .env").last().click();
    await page.getByRole("link", { name: "Open the workspace" }).click();
    await g.at("Home");
    await g.expectClean();
  });
});
