// Links that no longer work, and a server that refuses or is unreachable.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { expectAccessible, guest } from "../../../harness/browser/pages.ts";
import { button, field, fillLogin, linkTo, me, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { account, freshEmail, lastMail, logIn, PASSWORD, team } from "../../../harness/instances/people.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

const OTHER = "quite another set of words";
const HOUR_MS = 3_600_000;

describe.runIf(hasBrowser)("the pages behind links", () => {
  const suite = useBrowserSuite();

  it("treats used and expired links alike: reset after 30 minutes, invitation after 7 days", async () => {
    await using own = await testInstance("sqlite");
    const t = await team(own);
    const { email } = t.owner;
    const guestEmail = await account(own, freshEmail("max"));
    await own.call(null, "POST /v1/auth/password_resets", { email });
    const used = await lastMail(own, email);
    await own.call(null, "POST /v1/auth/password_resets/consume", { token: used.token, password: OTHER });
    await own.call(null, "POST /v1/auth/password_resets", { email });
    const late = await lastMail(own, email);
    await own.call(t.key, "POST /v1/invites", { email: guestEmail, role: "member" });
    const invited = await lastMail(own, guestEmail);
    own.clock.advance(7 * 24 * HOUR_MS + 1);
    await using g = await guest(suite.browser);
    for (const { link } of [used, late]) {
      await g.open(link ?? "");
      await field(g.page, "New password").fill("never to be set, this one");
      await button(g.page, "Reset password").click();
      await g.at("This link has expired or was already used");
    }
    expect((await logIn(own, email, OTHER)).email).toBe(email);
    await g.open(invited.link ?? "");
    await g.page.getByLabel("I have an account").check();
    await fillLogin(g.page, guestEmail, PASSWORD);
    await button(g.page, "Log in and accept").click();
    await g.at("This link has expired or was already used");
    const { body } = await own.call(t.key, "GET /v1/members");
    expect(body.data).toHaveLength(1);
    await g.expectClean();
  });

  it("says how long to wait after too many attempts", async () => {
    const clock = testClock();
    await using strict = await testInstance("sqlite", { flags: { throttle: "on" }, clock });
    await using g = await guest(suite.browser);
    await g.open(`${strict.url}/#/invite?token=krinv_made_up`);
    await g.page.getByLabel("I have an account").check();
    const email = freshEmail("mia");
    for (let i = 0; i < 10; i++)
      await strict.call(null, "POST /v1/auth/sessions", { email, password: "wrong words every time" });
    clock.advance(5 * MINUTE_MS); // of a window of 15
    await fillLogin(g.page, email, "wrong words every time");
    await button(g.page, "Log in and accept").click();
    await g.page.getByRole("alert").getByText("Too many requests. Try again in 10 minutes.").waitFor();
    await expectAccessible(g.page);
    await g.expectClean();
  });

  it("says when the server is unreachable, and continues when it is back", async () => {
    const email = await account(suite.instance, freshEmail("ned"), PASSWORD, false);
    await using g = await guest(suite.browser);
    await g.open(await linkTo(suite.instance, email));
    await button(g.page, "Verify email address").waitFor();
    await g.page.context().setOffline(true);
    await button(g.page, "Verify email address").click();
    await g.page.getByText("Cannot reach the server.").waitFor();
    await g.page.context().setOffline(false);
    await button(g.page, "Verify email address").click();
    await g.at("Your email address is verified");
    expect((await me(suite.instance, email)).user.email_verified).toBe(true);
  });

  it("explains an address without a token, after a reload or typed by hand, and asks before a form is left", async () => {
    await team(suite.instance); // a server without an owner shows how to set it up instead
    suite.instance.clock.advance(2_000); // until then it may respond from memory
    const email = await account(suite.instance, freshEmail("oda"), PASSWORD, false);
    await using g = await guest(suite.browser);
    await g.open(await linkTo(suite.instance, email));
    await g.at("Verify your email address");
    await g.page.reload();
    await g.at("Open the link again");
    await expectAccessible(g.page);
    for (const hash of ["#/reset", "#/invite?token=", "#/verify?token"]) {
      await g.open(`${suite.instance.url}/`);
      await g.at("Log in");
      await g.open(`${suite.instance.url}/${hash}`);
      await g.at("Open the link again");
    }
    for (const [hash, title] of [
      ["", "Log in"],
      ["#/nowhere?token=made-up", "This page does not exist"],
      ["#/", "Log in"],
      ["#%00", "This page does not exist"],
      ["#", "Log in"],
    ] as const) {
      await g.open(`${suite.instance.url}/${hash}`);
      await g.at(title);
      expect(g.page.url()).not.toContain("token");
    }
    // What was typed is not lost without a question.
    await g.open(`${suite.instance.url}/#/signup`);
    await field(g.page, "Email").fill("ada@example.com");
    for (const [answer, title] of [
      ["dismiss", "Sign up"],
      ["accept", "Log in"],
    ] as const) {
      const asked = g.page.waitForEvent("dialog");
      const clicked = g.page.getByRole("link", { name: "Log in" }).click();
      await (await asked)[answer]();
      await clicked;
      await g.at(title);
    }
    await g.expectClean();
  });
});
