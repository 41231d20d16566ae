// Resetting a password by its mailed link.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { guest } from "../../../harness/browser/pages.ts";
import { button, field, linkTo, me, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { account, freshEmail, PASSWORD, person } from "../../../harness/instances/people.ts";
import { expectRefusal } from "../../../harness/instances/test-instance.ts";

const OTHER = "quite another set of words";

describe.runIf(hasBrowser)("the password reset pages", () => {
  const suite = useBrowserSuite();

  it("sets a new password, and the old one and every session stop working", async () => {
    const p = await person(suite.instance, { email: freshEmail("dee") });
    await using g = await guest(suite.browser);
    await g.open(`${suite.instance.url}/#/login`);
    await g.page.getByRole("link", { name: "Forgot your password?" }).click();
    await g.at("Reset your password");
    await field(g.page, "Email").fill(p.email);
    await button(g.page, "Send reset link").click();
    await g.at("Ask your operator for the link");
    await g.open(await linkTo(suite.instance, p.email));
    await field(g.page, "New password").fill(OTHER);
    await button(g.page, "Reset password").click();
    await g.at("Your password has been reset");
    expectRefusal(await suite.instance.call(p.session, "GET /v1/auth/me"), 401, "invalid_session");
    const old = await suite.instance.call(null, "POST /v1/auth/sessions", { email: p.email, password: PASSWORD });
    expectRefusal(old, 401, "invalid_credentials");
    expect((await me(suite.instance, p.email, OTHER)).user.email_verified).toBe(true);
    await g.expectClean();
  });

  const REFUSED = [
    ["", "New password is required."],
    ["short", "New password must have at least 12 characters."],
    ["zkzkzkzkzkzkzk", "New password repeats the same few characters."],
    ["ghijklmnopqrstu", "New password is a simple sequence."],
    ["keyrackkeyrack1", "New password is little more than a word that belongs to this account."],
  ] as const;
  it("says next to the field why a password is rejected, and the link still works", async () => {
    const email = await account(suite.instance, freshEmail("eve"));
    await suite.instance.call(null, "POST /v1/auth/password_resets", { email });
    await using g = await guest(suite.browser);
    await g.open(await linkTo(suite.instance, email));
    const input = field(g.page, "New password");
    for (const [password, reason] of REFUSED) {
      await input.fill(password);
      await button(g.page, "Reset password").click();
      await g.page.getByText(reason, { exact: true }).waitFor();
      await expect.poll(() => input.getAttribute("aria-invalid")).toBe("true");
      await expect.poll(() => g.page.evaluate("document.activeElement.name")).toBe("password");
      const described = ((await input.getAttribute("aria-describedby")) ?? "").split(" ")[0] ?? "";
      await expect.poll(() => g.page.locator(`#${described}`).innerText()).toBe(reason);
    }
    await input.fill(OTHER);
    await button(g.page, "Reset password").click();
    await g.at("Your password has been reset");
    await g.expectClean();
  });

  it("offers a new link for a replaced one, and changes nothing", async () => {
    const email = await account(suite.instance, freshEmail("fay"));
    await suite.instance.call(null, "POST /v1/auth/password_resets", { email });
    const link = await linkTo(suite.instance, email);
    await suite.instance.call(null, "POST /v1/auth/password_resets", { email });
    await using g = await guest(suite.browser);
    await g.open(link);
    await field(g.page, "New password").fill(OTHER);
    await button(g.page, "Reset password").click();
    await g.at("This link has expired or was already used");
    expect((await me(suite.instance, email)).user.email).toBe(email);
    await field(g.page, "Email").fill("no address");
    await button(g.page, "Send a new link").click();
    await g.page.getByText("Email must be a valid email address.").waitFor();
    await field(g.page, "Email").fill(email);
    await button(g.page, "Send a new link").click();
    await g.at("Ask your operator for the link");
    await g.open(await linkTo(suite.instance, email));
    await field(g.page, "New password").fill(OTHER);
    await button(g.page, "Reset password").click();
    await g.at("Your password has been reset");
    await g.expectClean();
  });
});
