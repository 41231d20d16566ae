// The pages behind the links in people's mail, in a real browser, with the real mail folder and the real API.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasBrowser, launchBrowser } from "../../harness/browser/browser.ts";
import { expectAccessible, guest } from "../../harness/browser/pages.ts";
import {
  account,
  freshEmail,
  lastMail,
  receivedMail,
  logIn,
  PASSWORD,
  person,
  team,
} from "../../harness/instances/people.ts";
import { expectRefusal, testInstance, type TestInstance } from "../../harness/instances/test-instance.ts";
import { testClock } from "../../harness/instances/test-services.ts";

const SHOTS = process.env.KEYRACK_TEST_SCREENSHOTS;
const OTHER = "quite another set of words";
const HOUR_MS = 3_600_000;

const button = (page: Page, name: string): Locator => page.getByRole("button", { name, exact: true });
const field = (page: Page, label: string): Locator => page.getByLabel(label, { exact: true });

async function fill(page: Page, email: string, password: string): Promise<void> {
  await field(page, "E-mail address").fill(email);
  await field(page, "Password").fill(password);
}

describe.runIf(hasBrowser)("the pages behind the links", { retry: 1 }, () => {
  let browser: Browser;
  let r: TestInstance;
  beforeAll(async () => {
    [browser, r] = await Promise.all([launchBrowser(), testInstance("sqlite")]);
  });
  afterAll(async () => {
    await browser?.close();
    await r?.[Symbol.asyncDispose]();
  });

  const linkTo = async (email: string): Promise<string> => (await lastMail(r, email)).link ?? "";
  const me = async (email: string, password = PASSWORD) => {
    const { session } = await logIn(r, email, password);
    return (await r.call(session, "GET /v1/auth/me")).body;
  };
  const liveSessions = async (email: string): Promise<number> => {
    const rows = await r.sql(
      "select s.id from sessions s join users u on u.id = s.user_id where u.email = $1 and s.revoked_at is null",
      [email],
    );
    return rows.length;
  };
  /** An owner's invitation and its mailed link. */
  const invite = async (email: string, role = "admin") => {
    const t = await team(r);
    const { body } = await r.call(t.owner.session, "POST /v1/invites", { email, role });
    return { team: t, link: await linkTo(email), id: body.id as string };
  };

  describe("verify", () => {
    it("verifies the address of a sign-up by its mailed link, once the person says so", async () => {
      const email = await account(r, freshEmail("ada"), PASSWORD, false);
      await using g = await guest(browser);
      await g.open(await linkTo(email));
      await g.at("Verify your e-mail address");
      expect(new URL(g.page.url()).hash).toBe("#/verify");
      expect((await me(email)).user.email_verified).toBe(false); // opening it is not enough: mail filters do that
      await button(g.page, "Verify my address").click();
      await g.at("Your address is verified");
      expect((await me(email)).user.email_verified).toBe(true);
      await g.expectClean();
    });

    it("says of a used link what to do, and of an account that needs nothing that it needs nothing", async () => {
      const email = await account(r, freshEmail("ben"), PASSWORD, false);
      const { link, token } = await lastMail(r, email);
      await r.call(null, "POST /v1/auth/email_verifications/consume", { token });
      const before = (await receivedMail(r, email)).length;
      await using g = await guest(browser);
      await g.open(link ?? "");
      await button(g.page, "Verify my address").click();
      await g.at("This link no longer works");
      await fill(g.page, email, PASSWORD);
      await button(g.page, "Send me a new link").click();
      await g.at("Your address is verified");
      expect((await receivedMail(r, email)).length).toBe(before);
      await expect.poll(() => liveSessions(email)).toBe(0);
      await g.expectClean();
    });

    it("sends a new link in place of one that has expired, and that one works in the same tab", async () => {
      await using own = await testInstance("sqlite");
      const email = await account(own, freshEmail("cas"), PASSWORD, false);
      const first = (await lastMail(own, email)).link ?? "";
      own.clock.advance(25 * HOUR_MS);
      await using g = await guest(browser);
      await g.open(first);
      await button(g.page, "Verify my address").click();
      await g.at("This link no longer works");
      await fill(g.page, email, "not the right words");
      await button(g.page, "Send me a new link").click();
      await g.page.getByText("The e-mail address or the password is not right.").waitFor();
      await field(g.page, "Password").fill(PASSWORD);
      await button(g.page, "Send me a new link").click();
      await g.at("A new link is on its way");
      const second = (await lastMail(own, email)).link ?? "";
      expect(second).not.toBe(first);
      await g.open(second);
      await button(g.page, "Verify my address").click();
      await g.at("Your address is verified");
      await g.expectClean();
    });
  });

  describe("reset", () => {
    it("asks, mails, sets the new password; the old one and every session are done with", async () => {
      const p = await person(r, { email: freshEmail("dee") });
      await using g = await guest(browser);
      await g.open(`${r.url}/`);
      await g.page.getByRole("link", { name: "Forgot your password?" }).click();
      await g.at("Choose a new password");
      await field(g.page, "E-mail address").fill(p.email);
      await button(g.page, "Send me a link").click();
      await g.at("Look into your mailbox");
      await g.open(await linkTo(p.email));
      await field(g.page, "New password").fill(OTHER);
      await button(g.page, "Set the new password").click();
      await g.at("Your new password is set");
      expectRefusal(await r.call(p.session, "GET /v1/auth/me"), 401, "invalid_session");
      const old = await r.call(null, "POST /v1/auth/sessions", { email: p.email, password: PASSWORD });
      expectRefusal(old, 401, "invalid_credentials");
      expect((await me(p.email, OTHER)).user.email_verified).toBe(true);
      await g.expectClean();
    });

    const REFUSED = [
      ["", "New password is required."],
      ["short", "New password must have at least 12 characters."],
      ["zkzkzkzkzkzkzk", "New password repeats the same few characters."],
      ["ghijklmnopqrstu", "New password is a simple sequence."],
      ["keyrackkeyrack1", "New password is little more than a word that belongs to this account."],
    ] as const;
    it("says next to the field why a password is refused, and the link still works", async () => {
      const email = await account(r, freshEmail("eve"));
      await r.call(null, "POST /v1/auth/password_resets", { email });
      await using g = await guest(browser);
      await g.open(await linkTo(email));
      const input = field(g.page, "New password");
      for (const [password, reason] of REFUSED) {
        await input.fill(password);
        await button(g.page, "Set the new password").click();
        await g.page.getByText(reason, { exact: true }).waitFor();
        expect(await input.getAttribute("aria-invalid")).toBe("true");
        expect(await g.page.evaluate("document.activeElement.name")).toBe("password");
        const described = ((await input.getAttribute("aria-describedby")) ?? "").split(" ")[0] ?? "";
        expect(await g.page.locator(`#${described}`).innerText()).toBe(reason);
      }
      await input.fill(OTHER);
      await button(g.page, "Set the new password").click();
      await g.at("Your new password is set");
      await g.expectClean();
    });

    it("offers a new link in place of one that was replaced, and changes nothing", async () => {
      const email = await account(r, freshEmail("fay"));
      await r.call(null, "POST /v1/auth/password_resets", { email });
      const link = await linkTo(email);
      await r.call(null, "POST /v1/auth/password_resets", { email });
      await using g = await guest(browser);
      await g.open(link);
      await field(g.page, "New password").fill(OTHER);
      await button(g.page, "Set the new password").click();
      await g.at("This link no longer works");
      expect((await me(email)).user.email).toBe(email);
      await field(g.page, "E-mail address").fill("no address");
      await button(g.page, "Send me a new link").click();
      await g.page.getByText("E-mail address must be an e-mail address.").waitFor();
      await field(g.page, "E-mail address").fill(email);
      await button(g.page, "Send me a new link").click();
      await g.at("Look into your mailbox");
      await g.open(await linkTo(email));
      await field(g.page, "New password").fill(OTHER);
      await button(g.page, "Set the new password").click();
      await g.at("Your new password is set");
      await g.expectClean();
    });
  });

  describe("invite", () => {
    it("lets a new person in by the mailed link: signed up, verified and a member in one go", async () => {
      const email = freshEmail("gil");
      const { team: t, link } = await invite(email);
      await using g = await guest(browser);
      await g.open(link);
      await g.at("Accept your invitation");
      await fill(g.page, email, PASSWORD);
      await g.page.getByLabel(/^Your name/).fill("Gil");
      await button(g.page, "Sign up and accept").click();
      await g.at("Welcome to Team");
      await g.page.getByText(`${email} is now an admin of this workspace.`).waitFor();
      await expect.poll(() => liveSessions(email)).toBe(0); // the page left no session behind
      const { user, memberships } = await me(email);
      expect(user.email_verified).toBe(true);
      expect(memberships).toEqual([{ workspace_id: t.id, role: "admin", name: "Team", slug: t.slug }]);
      await g.expectClean();
    });

    it("lets a person with an account in, who logs in on the way", async () => {
      const email = await account(r, freshEmail("hal"));
      const { team: t, link } = await invite(email, "member");
      await using g = await guest(browser);
      await g.open(link);
      await field(g.page, "E-mail address").fill(email);
      await g.page.getByLabel("I have an account").check();
      expect(await field(g.page, "E-mail address").inputValue()).toBe(email);
      await field(g.page, "Password").fill(PASSWORD);
      await button(g.page, "Log in and accept").click();
      await g.at("Welcome to Team");
      await g.page.getByText(`${email} is now a member of this workspace.`).waitFor();
      expect((await me(email)).active_workspace_id).toBe(t.id);
      await g.expectClean();
    });

    it("asks for the account's own password when the address has signed up before", async () => {
      const email = await account(r, freshEmail("ida"));
      const { link } = await invite(email);
      await using g = await guest(browser);
      await g.open(link);
      await fill(g.page, email, OTHER);
      await button(g.page, "Sign up and accept").click();
      await g.at("Log in to accept");
      expect(await field(g.page, "E-mail address").inputValue()).toBe(email);
      await field(g.page, "Password").fill(PASSWORD);
      await button(g.page, "Log in and accept").click();
      await g.at("Welcome to Team");
      await g.expectClean();
    });

    it("has a person with another address verify it first, and then goes on", async () => {
      const email = freshEmail("jo.private");
      const { link } = await invite(freshEmail("jo"));
      await using g = await guest(browser);
      await g.open(link);
      await fill(g.page, email, PASSWORD);
      await button(g.page, "Sign up and accept").click();
      await g.at("One step more: verify your address");
      await expectAccessible(g.page);
      await button(g.page, "I have verified it").click();
      await g.page.getByText("is not verified yet").waitFor();
      const before = (await receivedMail(r, email)).length;
      await button(g.page, "Send the message again").click();
      await g.page.getByRole("status").getByText(`Sent to ${email}.`).waitFor();
      expect((await receivedMail(r, email)).length).toBe(before + 1);
      const { token } = await lastMail(r, email);
      await r.call(null, "POST /v1/auth/email_verifications/consume", { token });
      await button(g.page, "I have verified it").click();
      await g.at("Welcome to Team");
      await g.expectClean();
    });

    it("tells whom to ask when the invitation was taken back", async () => {
      const email = await account(r, freshEmail("kim"));
      const { team: t, link, id } = await invite(email);
      const revoked = await r.call(t.owner.session, `POST /v1/invites/${id}/revoke`, {});
      expect(revoked.status).toBe(200);
      await using g = await guest(browser);
      await g.open(link);
      await g.page.getByLabel("I have an account").check();
      await fill(g.page, email, PASSWORD);
      await button(g.page, "Log in and accept").click();
      await g.at("This link no longer works");
      await g.page.getByText("Ask the person who invited you for a new one.").waitFor();
      expect((await me(email)).memberships).toEqual([]);
      await expectAccessible(g.page);
      await g.expectClean();
    });

    it("says when there is nothing to accept because the person is in already", async () => {
      const p = await person(r, { email: freshEmail("lou") });
      const { team: t, link } = await invite(freshEmail("somebody"));
      const own = await r.call(t.owner.session, "POST /v1/invites", { email: p.email, role: "member" });
      await r.call(p.session, "POST /v1/auth/invites/accept", { token: own.body.token });
      await using g = await guest(browser);
      await g.open(link);
      await g.page.getByLabel("I have an account").check();
      await fill(g.page, p.email, PASSWORD);
      await button(g.page, "Log in and accept").click();
      await g.at("You are already a member");
      expect((await me(p.email)).memberships).toMatchObject([{ role: "member" }]);
      await g.expectClean();
    });
  });

  it("treats links that were used or are past their time alike: reset after half an hour, invite after a week", async () => {
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
    await using g = await guest(browser);
    for (const { link } of [used, late]) {
      await g.open(link ?? "");
      await field(g.page, "New password").fill("never to be set, this one");
      await button(g.page, "Set the new password").click();
      await g.at("This link no longer works");
    }
    expect((await logIn(own, email, OTHER)).email).toBe(email);
    await g.open(invited.link ?? "");
    await g.page.getByLabel("I have an account").check();
    await fill(g.page, guestEmail, PASSWORD);
    await button(g.page, "Log in and accept").click();
    await g.at("This link no longer works");
    const { body } = await own.call(t.key, "GET /v1/members");
    expect(body.data).toHaveLength(1);
    await g.expectClean();
  });

  it("tells how long to wait when there were too many tries", async () => {
    const clock = testClock(Date.parse("2026-01-01T00:05:00Z")); // windows of a quarter start at the quarter
    await using strict = await testInstance("sqlite", { flags: { throttle: "on" }, clock });
    await using g = await guest(browser);
    await g.open(`${strict.url}/#/invite?token=krinv_made_up`);
    await g.page.getByLabel("I have an account").check();
    const email = freshEmail("mia");
    for (let i = 0; i < 10; i++)
      await strict.call(null, "POST /v1/auth/sessions", { email, password: "wrong words every time" });
    await fill(g.page, email, "wrong words every time");
    await button(g.page, "Log in and accept").click();
    await g.page.getByRole("alert").getByText("There were too many tries. Try again in 10 minutes.").waitFor();
    await expectAccessible(g.page);
    await g.expectClean();
  });

  it("says so when the server cannot be reached, and goes on when it can", async () => {
    const email = await account(r, freshEmail("ned"), PASSWORD, false);
    await using g = await guest(browser);
    await g.open(await linkTo(email));
    await g.page.context().setOffline(true);
    await button(g.page, "Verify my address").click();
    await g.page.getByText("The server cannot be reached.").waitFor();
    await g.page.context().setOffline(false);
    await button(g.page, "Verify my address").click();
    await g.at("Your address is verified");
    expect((await me(email)).user.email_verified).toBe(true);
  });

  it("explains an address without its token, after a reload and by hand", async () => {
    const email = await account(r, freshEmail("oda"), PASSWORD, false);
    await using g = await guest(browser);
    await g.open(await linkTo(email));
    await g.at("Verify your e-mail address");
    await g.page.reload();
    await g.at("Open the link again");
    await expectAccessible(g.page);
    for (const hash of ["#/reset", "#/invite?token=", "#/verify?token"]) {
      await g.open(`${r.url}/`);
      await g.at("This is a Keyrack server");
      await g.open(`${r.url}/${hash}`);
      await g.at("Open the link again");
    }
    for (const hash of ["", "#", "#/", "#/nowhere?token=made-up", "#%00"]) {
      await g.open(`${r.url}/${hash}`);
      await g.at("This is a Keyrack server");
      expect(g.page.url()).not.toContain("token");
    }
    await g.expectClean();
  });

  it("is used by keyboard alone: a new person accepts an invitation", async () => {
    const email = freshEmail("pia");
    const { link } = await invite(email);
    await using g = await guest(browser);
    const { keyboard } = g.page;
    const focused = (): Promise<string> =>
      g.page.evaluate("document.activeElement.labels?.[0]?.innerText ?? document.activeElement.innerText");
    const radio = (): Promise<string> => g.page.evaluate("document.activeElement.parentElement.innerText");
    await g.open(link);
    await g.at("Accept your invitation");
    await expect.poll(focused).toBe("Accept your invitation");
    await keyboard.press("Tab");
    expect(await radio()).toBe("I am new here");
    await keyboard.press("ArrowRight");
    expect(await radio()).toBe("I have an account");
    await keyboard.press("ArrowLeft");
    await keyboard.press("Tab");
    await expect.poll(focused).toBe("E-mail address");
    await keyboard.type("pia");
    await keyboard.press("Enter");
    await expect.poll(focused).toBe("Password"); // the first thing that is missing
    await keyboard.type("password1234");
    await keyboard.press("Tab");
    await expect.poll(focused).toBe("Show");
    await keyboard.press("Space");
    expect(await field(g.page, "Password").getAttribute("type")).toBe("text");
    await keyboard.press("Tab");
    await expect.poll(focused).toBe("Sign up and accept");
    await keyboard.press("Enter");
    await g.page.getByText("E-mail address must be an e-mail address.").waitFor();
    await expect.poll(focused).toBe("E-mail address");
    await keyboard.press("Control+A");
    await keyboard.type(email);
    await keyboard.press("Enter");
    await g.page.getByText("Password is one of the most common passwords.").waitFor();
    await expect.poll(focused).toBe("Password");
    await keyboard.press("Control+A");
    await keyboard.type(PASSWORD);
    await keyboard.press("Enter");
    await g.at("Welcome to Team");
    await expect.poll(focused).toBe("Welcome to Team");
    await g.expectClean();
  });

  // Colours do not depend on the layout, nor the layout on colours: each of both once, unless pictures are taken.
  const LOOKS = [
    ["light", { colorScheme: "light", viewport: { width: 760, height: 720 } }],
    ["narrow", { colorScheme: "dark", viewport: { width: 320, height: 568 } }],
    ["phone", { colorScheme: "light", viewport: { width: 360, height: 700 } }],
    ["dark", { colorScheme: "dark", viewport: { width: 760, height: 720 } }],
  ] as const;
  for (const [look, options] of LOOKS.slice(0, SHOTS ? 4 : 2)) {
    it(`has no accessibility violation and no sideways scrolling on any page: ${look}`, async () => {
      await using g = await guest(browser, { ...options, deviceScaleFactor: 1 });
      const lookAt = async (name: string): Promise<void> => {
        await expectAccessible(g.page);
        if (!SHOTS || look === "narrow") return;
        mkdirSync(SHOTS, { recursive: true });
        await g.page.mouse.move(0, 0);
        const card = await g.page.getByRole("main").boundingBox();
        if (!card) throw new Error("no card");
        const clip = { x: card.x - 14, y: 0, width: card.width + 28, height: card.y + card.height + 20 };
        const path = join(SHOTS, `pages-${name}-${look}.png`);
        await g.page.screenshot({ path, clip, fullPage: true, animations: "disabled" });
      };
      await g.open(`${r.url}/`);
      await g.at("This is a Keyrack server");
      await lookAt("home");
      await g.open(`${r.url}/#/verify?token=made-up`);
      await g.at("Verify your e-mail address");
      await lookAt("verify");
      await button(g.page, "Verify my address").click();
      await g.at("This link no longer works");
      await lookAt("verify-stale");
      await g.open(`${r.url}/#/forgot`);
      await g.at("Choose a new password");
      await lookAt("forgot");
      const email = await account(r, freshEmail("quin"));
      await r.call(null, "POST /v1/auth/password_resets", { email });
      await g.open(await linkTo(email));
      await field(g.page, "New password").waitFor();
      await lookAt("reset");
      await field(g.page, "New password").fill("password1234");
      await button(g.page, "Set the new password").click();
      await g.page.getByText("New password is one of the most common passwords.").waitFor();
      await lookAt("reset-refused");
      await field(g.page, "New password").fill(OTHER);
      await button(g.page, "Set the new password").click();
      await g.at("Your new password is set");
      await lookAt("reset-done");
      await g.open((await invite(email)).link);
      await g.at("Accept your invitation");
      await lookAt("invite");
      await g.page.getByLabel("I have an account").check();
      await fill(g.page, email, PASSWORD);
      await button(g.page, "Log in and accept").click();
      await g.page.getByRole("alert").getByText("not right").waitFor();
      await lookAt("invite-refused");
      await field(g.page, "Password").fill(OTHER);
      await button(g.page, "Log in and accept").click();
      await g.at("Welcome to Team");
      await lookAt("invite-done");
      await g.expectClean();
    });
  }
});
