// Every page while it loads, when the server refuses, and without a connection: what it says, and that it recovers.
import type { Page, Route } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn, type Shop } from "../../../harness/browser/dashboard.ts";
import { expectAccessible, LOOKS, setLook, STRUCTURE } from "../../../harness/browser/pages.ts";
import { button, dialog, useBrowserSuite } from "../../../harness/browser/suite.ts";

/** Addresses of pages; ids are filled in. Each is seen in one look, before others of that look that read the same. */
const PAGES = [
  "home",
  "settings",
  "keys",
  "keys/{key}",
  "tenants",
  "tenants/{tenant}",
  "projects",
  "projects/{project}",
  "plans",
  "plans/{plan}",
  "usage",
  "usage?tab=billing",
  "fleet",
  "leaks",
  "audit",
  "audit/1",
  "portal",
  "developers",
  "members",
  "instance",
  "account",
];

/** Longer than the longest back-off with its jitter: by then a page has asked again. */
const RETRIED_MS = 70_000;
/** How long the page waits for an answer (src/web/dashboard/api/call.ts). */
const ANSWER_MS = 40_000;
const REQUEST_ID = "01a1e3c8-0444-732a-922b-13ab70423f87";

/** How the server appears to respond. What the login needs is not touched. */
type Mode = "normal" | "stuck" | "silent" | "refusing" | "limited" | "gone";

async function control(page: Page): Promise<(next: Mode) => void> {
  let mode: Mode = "normal";
  const respond = async (route: Route): Promise<void> => {
    if (mode === "silent") return; // never answered
    if (mode === "stuck" && route.request().method() !== "GET") return; // reads are answered, changes never
    if (mode === "gone") return route.abort("connectionrefused");
    if (mode === "normal" || mode === "stuck") return route.continue();
    const [status, error, wait] =
      mode === "limited"
        ? [429, { code: "rate_limited", message: "This workspace has reached a usage limit." }, "30"]
        : [500, { code: "internal_error", message: "Something went wrong." }, ""];
    await route.fulfill({ status, headers: { "request-id": REQUEST_ID, "retry-after": wait }, json: { error } });
  };
  await page.route(/\/(status|v1\/(?!auth\/(me|sessions\/current)))/, respond);
  return (next) => {
    mode = next;
  };
}

describe.runIf(hasBrowser)("the states of every page", () => {
  const suite = useBrowserSuite();

  const fill = async (t: Shop): Promise<(page: string) => string> => {
    const { project_id, tenant_id } = t;
    const key = await suite.instance.call(t.key, "POST /v1/keys", { project_id, tenant_id, env: "live", name: "CI" });
    const plan = await suite.instance.call(t.key, "POST /v1/plans", { slug: "pro", name: "Pro" });
    const ids: Record<string, string> = {
      key: key.body.id,
      plan: plan.body.id,
      tenant: tenant_id,
      project: project_id,
    };
    return (page) => page.replace(/\{(\w+)\}/, (_all, name: string) => ids[name] ?? "");
  };

  it("loads, fails, is offline and recovers, in every look", async () => {
    const shops = [await shop(suite.instance), await shop(suite.instance), await shop(suite.instance)] as const;
    await using g = await signedIn(suite.browser, suite.instance, shops[0], { page: "nowhere" });
    const { page } = g;
    await g.at("This page does not exist");
    await page.clock.install();
    const set = await control(page);
    const failed = page.getByText("This could not be loaded.").first();
    for (const [n, [, look]] of LOOKS.entries()) {
      await setLook(page, look);
      // Another workspace: of this one the page has read nothing yet.
      const t = shops[n]!;
      const address = await fill(t);
      const open = (name: string): Promise<unknown> =>
        page.goto(`${suite.instance.url}/#/${name === "account" ? name : `w/${t.slug}/live/${address(name)}`}`);
      await open("nowhere");
      await g.at("This page does not exist");
      for (const [i, name] of PAGES.filter((_, at) => at % LOOKS.length === n).entries()) {
        set("silent");
        await open(name);
        await page.locator("main [aria-busy=true]").first().waitFor();
        if (i === 0) await expectAccessible(page);
        await open("nowhere");
        await g.at("This page does not exist");

        set("refusing");
        await open(name);
        await failed.waitFor();
        await page.getByText(REQUEST_ID).first().waitFor();
        await expectAccessible(page, i === 0 ? undefined : STRUCTURE);

        set("gone");
        await button(page, "Try again").first().click();
        await expect.poll(() => page.locator(".banner.bad").innerText()).toBe("Offline. The server cannot be reached.");
        await page.getByText("Cannot reach the server.").first().waitFor();
        if (i === 0) await expectAccessible(page);

        set("normal");
        await page.clock.fastForward(RETRIED_MS);
        await failed.waitFor({ state: "detached" }); // by itself
        await page.getByText(/^Offline/).waitFor({ state: "detached" });
        await page.locator("main [aria-busy=true]").first().waitFor({ state: "detached" });
      }
    }
    await expect.poll(() => page.evaluate("violations")).toEqual([]);
  });

  it("keeps rows on the screen while a search is on its way, but not an empty list", async () => {
    const t = await shop(suite.instance);
    const address = await fill(t);
    await using g = await signedIn(suite.browser, suite.instance, t, { page: address("keys") });
    const { page } = g;
    const row = page.getByRole("row").filter({ hasText: "CI" });
    await row.waitFor();
    const set = await control(page);
    set("silent");
    await page.getByLabel("Search keys").fill("other");
    await page.locator("main [aria-busy=true]").waitFor();
    await row.waitFor();
    set("normal");
    await page.getByLabel("Search keys").fill("others");
    await page.getByRole("heading", { name: "No keys match" }).waitFor();
    // An empty answer is not kept: without filters it would say that there are no keys.
    set("silent");
    await page.getByLabel("Filter by state").selectOption("Revoked");
    await page.locator("main .skeleton").waitFor();
    expect(await page.getByRole("heading", { name: "No keys match" }).count()).toBe(0);
  });

  it("keeps what is shown when a refresh fails, disables changes offline, and gives up on a request without answer", async () => {
    const t = await shop(suite.instance);
    const address = await fill(t);
    await using g = await signedIn(suite.browser, suite.instance, t, { page: address("keys/{key}") });
    const { page } = g;
    await page.getByText("Not used in the last 30 days.").waitFor();
    const set = await control(page);
    set("refusing");
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))"); // polls at once
    await page
      .getByText(/^Showing data from .* Something went wrong on the server\./)
      .first()
      .waitFor();
    await page.getByText("Requests with this key are allowed.").waitFor();
    await expectAccessible(page);
    set("limited");
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await page
      .getByText(/^Showing data from .* This workspace has reached a usage limit\.$/)
      .first()
      .waitFor();
    await page
      .getByRole("button", { name: /^Try again in 2\d seconds$/ }) // counts down from 30
      .first()
      .waitFor();
    await page.getByText(`Request id ${REQUEST_ID}`).first().waitFor();
    set("gone");
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await page.getByText(/^Offline/).waitFor();
    for (const name of ["Edit", "Rotate", "Disable", "Revoke"]) {
      await expect.poll(() => button(page, name).getAttribute("aria-disabled")).toBe("true");
      await button(page, name).click({ force: true });
    }
    expect(await page.getByRole("dialog").count()).toBe(0);
    set("normal");
    await page.getByText(/^Offline/).waitFor({ state: "detached" });

    // A request that is never answered leaves the dialog usable, with what was typed. While others are answered, the
    // page is not offline.
    await page.clock.install();
    await button(page, "Edit").click();
    const edit = page.getByRole("dialog", { name: "Edit key" });
    await edit.getByLabel(/^Name/).fill("CI two");
    set("stuck");
    await edit.getByRole("button", { name: "Save" }).click();
    await edit.getByRole("button", { name: "Please wait…" }).waitFor();
    await suite.instance.call(t.key, `PATCH /v1/${address("keys/{key}")}`, { name: "CI one" });
    await page.clock.fastForward(ANSWER_MS / 2);
    await page.locator("h1", { hasText: "CI one" }).waitFor(); // a poll was answered
    await page.clock.fastForward(ANSWER_MS / 2);
    await edit
      .getByRole("alert")
      .getByText("The server did not answer in time. The change may have been made")
      .waitFor();
    expect(await page.getByText(/^Offline/).count()).toBe(0);
    for (const [mode, words] of [
      ["refusing", `Something went wrong on the server. Try again in a moment. Request id ${REQUEST_ID}.`],
      ["limited", "This workspace has reached a usage limit. Try again in 30 seconds."],
    ] as const) {
      set(mode);
      await edit.getByRole("button", { name: "Save" }).click();
      await edit.getByRole("alert").getByText(words).waitFor();
    }
    set("silent");
    await edit.getByRole("button", { name: "Save" }).click();
    await edit.getByRole("button", { name: "Please wait…" }).waitFor();
    await page.clock.fastForward(ANSWER_MS);
    await edit.getByRole("alert").getByText("Cannot reach the server.").waitFor();
    set("normal");
    await page.clock.fastForward(RETRIED_MS);
    await page.getByText(/^Offline/).waitFor({ state: "detached" });
    await edit.getByRole("button", { name: "Save" }).click();
    await g.at("CI two");

    // The page shows a change at once, and one by another client as soon as a refusal reveals it. Nothing polls now.
    await page.evaluate("Object.defineProperty(document, 'hidden', { value: true })");
    const panel = page.locator("section", { has: page.getByRole("heading", { name: "Changes" }) });
    await button(page, "Disable").click();
    await button(page, "Disable key").click();
    await panel.getByText("API key disabled").waitFor();
    await button(page, "Done").click();
    await suite.instance.call(t.key, `POST /v1/${address("keys/{key}")}/revoke`, {});
    await button(page, "Enable").click();
    await button(page, "Enable key").click();
    await page.getByRole("alert").getByText("A revoked key cannot be changed.").waitFor();
    await button(page, "Cancel").click();
    await page.locator(".state-line", { hasText: "Revoked" }).waitFor();
    await panel.getByText("API key revoked").waitFor();
    await expect.poll(() => button(page, "Edit").getAttribute("aria-disabled")).toBe("true");
  });

  it("shows a member every page, and sends nothing when what is disabled is pressed", async () => {
    const t = await shop(suite.instance);
    const address = await fill(t);
    await using g = await signedIn(suite.browser, suite.instance, t, { role: "member", page: "home" });
    const { page } = g;
    const writes: string[] = [];
    page.on("request", (request) => request.method() !== "GET" && writes.push(`${request.method()} ${request.url()}`));
    const { project_id, tenant_id } = t;
    const made = await suite.instance.call(t.key, "POST /v1/keys", {
      project_id,
      tenant_id,
      env: "live",
      name: "Lost",
    });
    let pressed = 0;
    for (const name of PAGES.filter((each) => each !== "account")) {
      await g.show(address(name));
      await page.locator("main h1").waitFor();
      await page.locator("main [aria-busy=true]").first().waitFor({ state: "detached" });
      if (name === "keys") {
        await button(page, "Actions for CI").click();
        await page.getByRole("menuitem", { name: "Edit", exact: true }).waitFor(); // the reason is its description
        for (const item of await page.getByRole("menuitem", { disabled: true }).all()) {
          await item.click({ force: true });
          pressed++;
        }
        await page.keyboard.press("Escape");
        await page.getByLabel("Search keys").fill(String(made.body.key)); // members look nothing up
        const note = () =>
          page.getByLabel("Search keys").evaluate((input: { validationMessage: string }) => input.validationMessage);
        await expect.poll(note).toMatch(/^This is an API key .* Search for its start instead\.$/);
      }
      for (const disabled of await page.locator("main [aria-disabled=true]:visible").all()) {
        await disabled.click({ force: true });
        pressed++;
      }
      expect(await page.getByRole("dialog").count(), name).toBe(0);
    }
    expect(pressed).toBeGreaterThan(10);
    await g.show("keys?create=key"); // the address of a colleague, or of a first step
    await dialog(page, "Create key").getByText("Members can view but not change.").waitFor();
    await page.keyboard.press("Enter");
    await dialog(page, "Create key").waitFor({ state: "detached" });
    expect(writes).toEqual([]);
    await g.expectClean();
  });
});
