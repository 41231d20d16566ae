// Asking for a reset link: the address is typed once, and a server without mail says where the link comes from.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { guest } from "../../../harness/browser/pages.ts";
import { button, field, useBrowserSuite } from "../../../harness/browser/suite.ts";

describe.runIf(hasBrowser)("the page for a forgotten password", () => {
  const suite = useBrowserSuite();

  it("takes the address from the login page and leads back to it", async () => {
    await using g = await guest(suite.browser);
    await g.open(`${suite.instance.url}/#/login`);
    await field(g.page, "Email").fill("ann@example.com");
    await g.page.getByRole("link", { name: "Forgot your password?" }).click();
    await g.at("Reset your password");
    expect(await field(g.page, "Email").inputValue()).toBe("ann@example.com");
    await button(g.page, "Send reset link").click();
    await g.at("Ask your operator for the link");
    await g.page.getByText("keyrack user reset-link EMAIL").waitFor();
    await g.page.getByRole("link", { name: "Back to log in" }).click();
    await g.at("Log in");
    expect(await field(g.page, "Email").inputValue()).toBe("ann@example.com");
    await g.expectClean();
  });
});
