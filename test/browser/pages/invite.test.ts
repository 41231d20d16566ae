// Accepting an invitation, with sign-up or login on the way.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { expectAccessible, guest } from "../../../harness/browser/pages.ts";
import {
  activeSessions,
  button,
  dialog,
  field,
  fillLogin,
  invite,
  me,
  useBrowserSuite,
} from "../../../harness/browser/suite.ts";
import {
  account,
  freshEmail,
  lastMail,
  PASSWORD,
  person,
  receivedMail,
  team,
} from "../../../harness/instances/people.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";

const OTHER = "quite another set of words";

describe.runIf(hasBrowser)("the invitation page", () => {
  const suite = useBrowserSuite();

  it("signs up, verifies and adds a new person in one step", async () => {
    const email = freshEmail("gil");
    const { team: t, link } = await invite(suite.instance, email);
    await using g = await guest(suite.browser);
    await g.open(link);
    await g.at("Accept your invitation");
    await fillLogin(g.page, email, PASSWORD);
    await g.page.getByLabel(/^Your name/).fill("Gil");
    await button(g.page, "Sign up and accept").click();
    await g.at("Home");
    await g.page.getByText("Welcome to Team. You are now an admin.").waitFor();
    expect(new URL(g.page.url()).hash).toBe(`#/w/${t.slug}/live/home`);
    expect(await activeSessions(suite.instance, email)).toBe(1); // the person stays signed in
    const { user, memberships } = await me(suite.instance, email);
    expect(user.email_verified).toBe(true);
    expect(memberships).toEqual([{ workspace_id: t.id, role: "admin", name: "Team", slug: t.slug }]);
    await g.expectClean();
  });

  it("adds a person with an account, who logs in on the way", async () => {
    const email = await account(suite.instance, freshEmail("hal"));
    const { team: t, link } = await invite(suite.instance, email, "member");
    await using g = await guest(suite.browser);
    await g.open(link);
    await field(g.page, "Email").fill(email);
    await g.page.getByLabel("I have an account").check();
    await expect.poll(() => field(g.page, "Email").inputValue()).toBe(email);
    await field(g.page, "Password").fill(PASSWORD);
    await button(g.page, "Log in and accept").click();
    await g.at("Home");
    await g.page.getByText("Welcome to Team. You are now a member.").waitFor();
    expect((await me(suite.instance, email)).active_workspace_id).toBe(t.id);
    await g.expectClean();
  });

  it("asks for the account's own password when the address already has an account", async () => {
    const email = await account(suite.instance, freshEmail("ida"));
    const { link } = await invite(suite.instance, email);
    await using g = await guest(suite.browser);
    await g.open(link);
    await fillLogin(g.page, email, OTHER);
    await button(g.page, "Sign up and accept").click();
    await g.at("Log in to accept");
    await expect.poll(() => field(g.page, "Email").inputValue()).toBe(email);
    await field(g.page, "Password").fill(PASSWORD);
    await button(g.page, "Log in and accept").click();
    await g.at("Home");
    await g.expectClean();
  });

  it("lets a person with another address verify it first, and then continue", async () => {
    const email = freshEmail("jo.private");
    const { link } = await invite(suite.instance, freshEmail("jo"));
    await using g = await guest(suite.browser);
    await g.open(link);
    await fillLogin(g.page, email, PASSWORD);
    await button(g.page, "Sign up and accept").click();
    await g.at("One more step: verify your email address");
    await expectAccessible(g.page);
    await button(g.page, "Continue").click();
    await g.page.getByText("is not verified yet").waitFor();
    const before = (await receivedMail(suite.instance, email)).length;
    await button(g.page, "Resend email").click();
    await g.page.getByRole("status").getByText(`Email sent to ${email}.`).waitFor();
    expect((await receivedMail(suite.instance, email)).length).toBe(before + 1);
    const { token } = await lastMail(suite.instance, email);
    await suite.instance.call(null, "POST /v1/auth/email_verifications/consume", { token });
    await button(g.page, "Continue").click();
    await g.at("Home");
    await g.expectClean();
  });

  it("leads a new person to a verified address where links are copied and unverified people cannot log in", async () => {
    await using own = await testInstance("sqlite", { flags: { sign_up: "invite", unverified_login: "refuse" } });
    const email = freshEmail("kay");
    const t = await team(own);
    const { body } = await own.call(t.owner.session, "POST /v1/invites", { email, role: "admin" });
    const copied = `${own.url}/#/invite?token=${body.token}`;
    await using g = await guest(suite.browser);
    const { page } = g;
    await g.open(`${own.url}/#/signup`);
    await g.at("Sign-up is by invitation");
    await page.getByRole("link", { name: "Log in" }).click();
    await g.at("Log in");
    await expect.poll(() => page.getByRole("link", { name: "Sign up" }).count()).toBe(0);

    await g.open(copied);
    await fillLogin(page, freshEmail("other"), PASSWORD);
    await button(page, "Sign up and accept").click();
    await page.getByText("You cannot sign up with this invitation. It is for another email address").waitFor();
    await field(page, "Email").fill(email);
    await button(page, "Sign up and accept").click();
    await g.at("Log in to accept");
    expect((await receivedMail(own, email)).map(({ subject }) => subject)).toEqual([
      "You have been invited to a Keyrack workspace",
      "Verify your email address",
    ]);
    await page
      .getByText("First verify your email address with the link in our message to it. Then log in here.")
      .waitFor();
    await page.getByText("This server does not deliver mail.").waitFor();
    await expectAccessible(page);
    own.clock.advance(25 * 3_600_000);
    const expired = (await lastMail(own, email)).link ?? "";
    await g.open(expired);
    await button(page, "Verify email address").click();
    await g.at("This link has expired or was already used");
    await fillLogin(page, email, PASSWORD);
    await button(page, "Send a new link").click();
    await page.getByText("Wrong email address or password. If both were right, a new link is on its way.").waitFor();
    const renewed = (await lastMail(own, email)).link ?? "";
    expect(renewed).not.toBe(expired);
    await g.open(renewed);
    await button(page, "Verify email address").click();
    await g.at("Your email address is verified");
    await g.open(copied);
    await page.getByLabel("I have an account").check();
    await fillLogin(page, email, PASSWORD);
    await button(page, "Log in and accept").click();
    await g.at("Home");
    await g.expectClean();
  });

  it("asks for an account where sign-up is closed", async () => {
    await using own = await testInstance("sqlite", { flags: { sign_up: "closed" } });
    const p = await person(own, { email: freshEmail("lea") });
    const t = await team(own);
    await own.call(t.owner.session, "POST /v1/invites", { email: p.email, role: "member" });
    await using g = await guest(suite.browser);
    await g.open((await lastMail(own, p.email)).link ?? "");
    await g.at("Accept your invitation");
    await g.page.getByText("ask the person who runs this server for one").waitFor();
    expect(await g.page.getByText("I'm new here").count()).toBe(0);
    await expectAccessible(g.page);
    await fillLogin(g.page, p.email, PASSWORD);
    await button(g.page, "Log in and accept").click();
    await g.at("Home");
    // The inviter reads how a new person gets an account.
    await using inviter = await guest(suite.browser);
    await inviter.open(`${own.url}/#/login`);
    await fillLogin(inviter.page, t.owner.email, PASSWORD);
    await button(inviter.page, "Log in").click();
    await inviter.at("Home");
    await inviter.open(`${own.url}/#/w/${t.slug}/live/members`);
    await button(inviter.page, "Invite").click();
    await field(inviter.page, "Email").fill(freshEmail());
    await dialog(inviter.page, "Invite").getByRole("button", { name: "Invite" }).click();
    const made = dialog(inviter.page, "Invitation created");
    await made.getByText("keyrack user create EMAIL").waitFor();
    expect(await made.getByText("signed up").count()).toBe(0);
    await g.expectClean();
  });

  it("takes the place of the person who was logged in here, and ends their session", async () => {
    const before = await team(suite.instance);
    const next = await account(suite.instance, freshEmail("mia"));
    const unverified = await person(suite.instance, { email: freshEmail("noa"), verified: false });
    await using g = await guest(suite.browser);
    const { page } = g;
    await g.open(`${suite.instance.url}/#/login`);
    await fillLogin(page, before.owner.email, PASSWORD);
    await button(page, "Log in").click();
    await g.at("Home");
    await g.open(`${suite.instance.url}/#/account`);
    await g.at("Account");
    await page.getByRole("table", { name: "Sessions" }).waitFor();
    expect(await activeSessions(suite.instance, before.owner.email)).toBe(2); // of `team`, and of this page
    // The join is refused: the page still says why, although it is another person's now.
    const { body } = await suite.instance.call(before.owner.session, "POST /v1/invites", {
      email: freshEmail("oli"),
      role: "member",
    });
    await g.open(`${suite.instance.url}/#/invite?token=${body.token}`);
    await page.getByLabel("I have an account").check();
    await fillLogin(page, unverified.email, PASSWORD);
    await button(page, "Log in and accept").click();
    await g.at("One more step: verify your email address");
    await expect.poll(() => activeSessions(suite.instance, before.owner.email)).toBe(1);

    // Into the workspace that was open, for whose pages the same is read.
    await suite.instance.call(before.owner.session, "POST /v1/invites", { email: next, role: "member" });
    await g.open((await lastMail(suite.instance, next)).link ?? "");
    await page.getByLabel("I have an account").check();
    await fillLogin(page, next, PASSWORD);
    await button(page, "Log in and accept").click();
    await g.at("Home");
    await expect.poll(() => activeSessions(suite.instance, unverified.email)).toBe(1);
    await page.route("**/v1/auth/sessions", (route) => route.fulfill({ status: 503 }));
    await g.open(`${suite.instance.url}/#/account`);
    await g.at("Account");
    await page.getByText("The server is busy.").waitFor();
    expect(await page.getByRole("table", { name: "Sessions" }).count()).toBe(0);
    await g.expectClean();
  });

  it("says what to do when the invitation was withdrawn", async () => {
    const email = await account(suite.instance, freshEmail("kim"));
    const { team: t, link, id } = await invite(suite.instance, email);
    const revoked = await suite.instance.call(t.owner.session, `POST /v1/invites/${id}/revoke`, {});
    expect(revoked.status).toBe(200);
    await using g = await guest(suite.browser);
    await g.open(link);
    await g.page.getByLabel("I have an account").check();
    await fillLogin(g.page, email, PASSWORD);
    await button(g.page, "Log in and accept").click();
    await g.at("This link has expired or was already used");
    await g.page.getByText("Ask the person who invited you for a new one.").waitFor();
    expect((await me(suite.instance, email)).memberships).toEqual([]);
    await expectAccessible(g.page);
    await g.expectClean();
  });

  it("says when the person is already a member", async () => {
    const p = await person(suite.instance, { email: freshEmail("lou") });
    const { team: t, link } = await invite(suite.instance, freshEmail("other"));
    const own = await suite.instance.call(t.owner.session, "POST /v1/invites", { email: p.email, role: "member" });
    await suite.instance.call(p.session, "POST /v1/auth/invites/accept", { token: own.body.token });
    await using g = await guest(suite.browser);
    await g.open(link);
    await g.page.getByLabel("I have an account").check();
    await fillLogin(g.page, p.email, PASSWORD);
    await button(g.page, "Log in and accept").click();
    await g.at("You are already a member");
    expect((await me(suite.instance, p.email)).memberships).toMatchObject([{ role: "member" }]);
    await g.expectClean();
  });
});
