// A browser, and an instance that all tests of a file share.
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { lastMail, logIn, PASSWORD, team, type Team } from "../instances/people.ts";
import { testInstance, type TestInstance, type TestInstanceOptions } from "../instances/test-instance.ts";
import { sharedBrowser } from "./browser.ts";

export type BrowserSuite = { readonly browser: Browser; readonly instance: TestInstance };

/** Call it inside `describe`: it starts both before the tests and stops them afterwards. */
export function useBrowserSuite(flags: TestInstanceOptions["flags"] = {}): BrowserSuite {
  const suite: Partial<{ browser: Browser; instance: TestInstance }> = {};
  beforeAll(async () => {
    suite.browser = await sharedBrowser();
    suite.instance = await testInstance("sqlite", { flags });
  });
  afterAll(() => suite.instance?.[Symbol.asyncDispose]());
  return suite as BrowserSuite;
}

export const button = (page: Page, name: string): Locator => page.getByRole("button", { name, exact: true });
export const field = (page: Page, label: string): Locator => page.getByLabel(label, { exact: true });

/** The dialog with this name. */
export const dialog = (page: Page, name: string | RegExp): Locator => page.getByRole("dialog", { name, exact: true });

/** Text and ground of the first element with this selector. */
export const colours = (page: Page, selector: string): Promise<string> =>
  page.evaluate(
    `(({ color, backgroundColor }) => color + backgroundColor)(getComputedStyle(document.querySelector("${selector}")))`,
  );

/** To be evaluated in a page with a dialog that has a disabled button under the pointer or with the focus. */
export const REASON = `(() => {
  const dialog = document.querySelector("dialog[open]");
  const { width, left, right, top, bottom } = dialog.querySelector(".reason").getBoundingClientRect();
  return {
    isShown: width > 0,
    isInWindow: left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight,
    scrolls: dialog.scrollHeight > dialog.clientHeight || dialog.scrollWidth > dialog.clientWidth,
  };
})()`;

export async function fillLogin(page: Page, email: string, password: string): Promise<void> {
  await field(page, "Email").fill(email);
  await field(page, "Password").fill(password);
}

/** The form behind the setup link. */
export async function fillSetup(page: Page, password = PASSWORD): Promise<void> {
  await fillLogin(page, "ada@example.com", password);
  await field(page, "Workspace name").fill("Ácme & Söhne");
}

/** The link in the newest mail to this address. */
export async function linkTo(instance: TestInstance, email: string): Promise<string> {
  return (await lastMail(instance, email)).link ?? "";
}

/** What the API says about a person who logs in. */
export async function me(instance: TestInstance, email: string, password = PASSWORD) {
  const { session } = await logIn(instance, email, password);
  return (await instance.call(session, "GET /v1/auth/me")).body;
}

export async function activeSessions(instance: TestInstance, email: string): Promise<number> {
  const rows = await instance.sql(
    "select s.id from sessions s join users u on u.id = s.user_id where u.email = $1 and s.revoked_at is null",
    [email],
  );
  return rows.length;
}

type Invitation = { team: Team; link: string; id: string };

/** An owner's invitation and its mailed link. */
export async function invite(instance: TestInstance, email: string, role = "admin"): Promise<Invitation> {
  const inviting = await team(instance);
  const { body } = await instance.call(inviting.owner.session, "POST /v1/invites", { email, role });
  return { team: inviting, link: await linkTo(instance, email), id: body.id as string };
}
