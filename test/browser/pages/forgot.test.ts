// Asking for a reset link: the address is typed once, and a server without mail says where the link comes from.
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { expectAccessible, guest } from "../../../harness/browser/pages.ts";
import { button, field, fillLogin, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { freshEmail, PASSWORD } from "../../../harness/instances/people.ts";

/** The server says that it delivers mail; it writes it to files. */
async function deliverMail(page: Page): Promise<void> {
  await page.route("**/v1/setup", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), mail: "smtp" } });
  });
}

describe.runIf(hasBrowser)("the page for a forgotten password", () => {
  const suite = useBrowserSuite();

  it("takes the address from the login page and leads back to it", async () => {
    await using g = await guest(suite.browser);
    await g.open(`${suite.instance.url}/#/login`);
    await field(g.page, "Email").fill("ann@example.com");
    await g.page.getByRole("link", { name: "Forgot your password?" }).click();
    await g.at("Reset your password");
    await expect.poll(() => field(g.page, "Email").inputValue()).toBe("ann@example.com");
    await button(g.page, "Send reset link").click();
    await g.at("Ask your operator for the link");
    await g.page.getByText("keyrack user reset-link EMAIL").waitFor();
    await g.page.getByRole("link", { name: "Back to log in" }).click();
    await g.at("Log in");
    await expect.poll(() => field(g.page, "Email").inputValue()).toBe("ann@example.com");
    await g.expectClean();
  });

  it("sends the link again where mail is delivered, one request at a time, or to another address", async () => {
    await using g = await guest(suite.browser);
    const { page } = g;
    await deliverMail(page);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const requests: string[] = [];
    await page.route("**/v1/auth/password_resets", async (route) => {
      requests.push(route.request().postData() ?? "");
      if (requests.length === 2) await held;
      await route.continue();
    });
    await g.open(`${suite.instance.url}/#/forgot`);
    await field(page, "Email").fill("ann@example.com");
    await button(page, "Send reset link").click();
    await g.at("Check your inbox");
    await button(page, "Resend email").click();
    await expect.poll(() => button(page, "Resend email").getAttribute("aria-disabled")).toBe("true");
    await button(page, "Resend email").click({ force: true });
    release();
    const status = page.locator("main").getByRole("status");
    await status.getByText(/^Email sent again at .*\d\.?.*$/).waitFor();
    await expect.poll(() => button(page, "Resend email").getAttribute("aria-disabled")).toBe(null);
    expect(requests).toHaveLength(2);
    await expectAccessible(page);
    await button(page, "Use another address").click();
    await g.at("Reset your password");
    await field(page, "Email").fill("bob@example.com");
    await button(page, "Send reset link").click();
    await page.getByText("If bob@example.com has an account").waitFor();
    await g.expectClean();
  });

  it("is like the page after signing up, which names the address", async () => {
    await using g = await guest(suite.browser);
    await deliverMail(g.page);
    await g.open(`${suite.instance.url}/#/signup`);
    await fillLogin(g.page, freshEmail("eve"), PASSWORD);
    await button(g.page, "Sign up").click();
    await g.at("Check your inbox");
    await g.page.getByText(/^We sent a link to eve.*\. Open it to verify your email address/).waitFor();
    await expectAccessible(g.page);
    await g.expectClean();
  });
});
