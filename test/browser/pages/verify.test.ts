// Verifying an email address by its mailed link.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { guest } from "../../../harness/browser/pages.ts";
import {
  activeSessions,
  button,
  field,
  fillLogin,
  linkTo,
  me,
  useBrowserSuite,
} from "../../../harness/browser/suite.ts";
import { account, freshEmail, lastMail, PASSWORD, receivedMail } from "../../../harness/instances/people.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

describe.runIf(hasBrowser)("the verification page", () => {
  const suite = useBrowserSuite();

  it("verifies the address of a sign-up once the person confirms", async () => {
    const email = await account(suite.instance, freshEmail("ada"), PASSWORD, false);
    await using g = await guest(suite.browser);
    await g.open(await linkTo(suite.instance, email));
    await g.at("Verify your email address");
    expect(new URL(g.page.url()).hash).toBe("#/verify");
    expect((await me(suite.instance, email)).user.email_verified).toBe(false); // opening the link is not enough: mail scanners open it too
    await button(g.page, "Verify email address").click();
    await g.at("Your email address is verified");
    expect((await me(suite.instance, email)).user.email_verified).toBe(true);
    await g.expectClean();
  });

  it("explains a used link, and sends nothing to a verified account", async () => {
    const email = await account(suite.instance, freshEmail("ben"), PASSWORD, false);
    const { link, token } = await lastMail(suite.instance, email);
    await suite.instance.call(null, "POST /v1/auth/email_verifications/consume", { token });
    const before = (await receivedMail(suite.instance, email)).length;
    await using g = await guest(suite.browser);
    await g.open(link ?? "");
    await button(g.page, "Verify email address").click();
    await g.at("This link has expired or was already used");
    await fillLogin(g.page, email, PASSWORD);
    await button(g.page, "Send a new link").click();
    await g.at("Your email address is verified");
    expect((await receivedMail(suite.instance, email)).length).toBe(before);
    await expect.poll(() => activeSessions(suite.instance, email)).toBe(0);
    await g.expectClean();
  });

  it("replaces an expired link with a new one that works in the same tab", async () => {
    await using own = await testInstance("sqlite");
    const email = await account(own, freshEmail("cas"), PASSWORD, false);
    const first = (await lastMail(own, email)).link ?? "";
    own.clock.advance(25 * HOUR_MS);
    await using g = await guest(suite.browser);
    await g.open(first);
    await button(g.page, "Verify email address").click();
    await g.at("This link has expired or was already used");
    await fillLogin(g.page, email, "not the right words");
    await button(g.page, "Send a new link").click();
    await g.page.getByText("Wrong email address or password.").waitFor();
    await field(g.page, "Password").fill(PASSWORD);
    await button(g.page, "Send a new link").click();
    await g.at("Check your inbox");
    const second = (await lastMail(own, email)).link ?? "";
    expect(second).not.toBe(first);
    await g.open(second);
    await button(g.page, "Verify email address").click();
    await g.at("Your email address is verified");
    await g.expectClean();
  });
});
