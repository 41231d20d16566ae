// Members and invitations, and the secret keys of developers.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { ownWorkspace, shop, signedIn, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { button, dialog, field, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { freshEmail, memberOf } from "../../../harness/instances/people.ts";

describe.runIf(hasBrowser)("members and secret keys", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("invites a person, revokes an invitation, and removes an owner with what they leave behind", async () => {
    const t = await ownWorkspace(suite.instance);
    const second = await memberOf(suite.instance, t, "owner");
    await suite.instance.call(second.session, "POST /v1/auth/sessions/current/workspace", { workspace_id: t.id });
    const left = await suite.instance.call(second.session, "POST /v1/secret_keys", { env: "live", name: "Left" });
    const g = await open(t, { page: "members" });
    const { page } = g;
    await g.at("Members");
    await page.getByText("This server does not deliver mail").waitFor();

    const email = freshEmail("kim");
    await button(page, "Invite").click();
    await field(page, "Email").fill(email);
    await field(page, "Role").selectOption("admin");
    await dialog(page, "Invite").getByRole("button", { name: "Invite" }).click();
    const made = dialog(page, "Invitation created");
    await made.getByRole("button", { name: "Copy invite link" }).waitFor();
    await made.getByText("keyrack user reset-link EMAIL").waitFor(); // the copied link does not verify the address
    const link = await made.locator(".secret-text").innerText();
    expect(link).toMatch(/\/#\/invite\?token=/);
    const questions: string[] = [];
    page.on("dialog", (asked) => {
      questions.push(asked.message());
      void asked.dismiss();
    });
    await page.keyboard.press("Escape"); // it is the only copy
    await expect.poll(() => questions).toEqual(["Leave without copying the link? It is not shown again."]);
    await made.getByRole("button", { name: "Done" }).click();
    await made.waitFor({ state: "detached" });
    expect((await page.locator("body").innerHTML()).includes(link.split("=")[1] ?? "")).toBe(false);
    await button(page, `Revoke the invitation for ${email}`).click();
    await dialog(page, "Revoke invitation").getByRole("button", { name: "Revoke invitation" }).click();
    await page.getByText("Invitation revoked.").waitFor();

    await page.getByRole("button", { name: `Actions for ${t.owner.email}` }).click();
    await page.getByRole("menuitem", { name: "Change role" }).click();
    await field(page, "Role").selectOption("member");
    await dialog(page, "Change role").getByRole("button", { name: "Cancel" }).click();

    await page.getByRole("button", { name: `Actions for ${second.email}` }).click();
    await page.getByRole("menuitem", { name: "Remove" }).click();
    const remove = dialog(page, `Remove ${second.email}`);
    await remove.getByRole("list", { name: "Left behind" }).getByText(left.body.display_prefix).waitFor();
    await remove.getByText("Live, last used never").waitFor();
    await expectAccessible(page);
    await remove.getByLabel("What they leave behind").selectOption("all");
    await remove.getByRole("button", { name: "Remove member" }).click();
    await page.getByText("Member removed.").waitFor();
    const keys = await suite.instance.call(t.owner.session, `GET /v1/secret_keys/${left.body.id}`);
    expect(keys.body.revoked_at).not.toBeNull();
    // A page after a person who is no longer there is the first one.
    await g.show(`members?members_after=${second.id}`);
    await page.getByRole("button", { name: `Actions for ${t.owner.email}` }).waitFor();
    expect(page.url()).toMatch(/\/members$/);

    // The last owner: the server's reason is shown, nothing changes.
    await page.getByRole("button", { name: `Actions for ${t.owner.email}` }).click();
    await page.getByRole("menuitem", { name: "Remove" }).click();
    await dialog(page, `Remove ${t.owner.email}`).getByRole("button", { name: "Remove member" }).click();
    await page.getByText("A workspace must keep at least one owner.").waitFor();

    // Of a server with a further role, more members and more invitations.
    await page.route(/\/v1\/(members|invites)\?/, async (route) => {
      const response = await route.fetch();
      const { data } = await response.json();
      await route.fulfill({
        response,
        json: { object: "list", data: data.map((row: object) => ({ ...row, role: "auditor" })), has_more: true },
      });
    });
    await page.reload();
    await page.getByRole("cell", { name: "auditor", exact: true }).nth(1).waitFor();
    await expectAccessible(page);
    const pages = page.getByRole("navigation", { name: "Pages of members" });
    const [next] = await Promise.all([
      page.waitForRequest(/\/v1\/members\?/),
      pages.getByRole("button", { name: "Next page" }).click(),
    ]);
    expect(next.url()).toContain(`?after=${t.owner.id}&limit=50`);
    await g.expectClean();
  });

  it("names people by their address too, because they choose their own names", async () => {
    const t = await ownWorkspace(suite.instance);
    const admin = await memberOf(suite.instance, t, "admin");
    const rename = (session: string, name: string) => suite.instance.call(session, "PATCH /v1/auth/me", { name });
    await rename(t.owner.session, "Ada Owner");
    await rename(admin.session, "Ada Owner");
    await suite.instance.call(admin.session, "POST /v1/auth/sessions/current/workspace", { workspace_id: t.id });
    await suite.instance.call(admin.session, "POST /v1/projects", { name: "By the admin", slug: "by-the-admin" });
    const g = await open(t, { page: "audit" });
    const { page } = g;
    const made = page.getByRole("row", { name: /Project created/ });
    await made.getByText("Ada Owner").waitFor();
    await made.getByText(admin.email).waitFor();
    await made.getByRole("link", { name: "Ada Owner" }).click();
    const chosen = page.getByLabel("Actor").locator("option:checked");
    await expect.poll(() => chosen.innerText()).toBe(`Ada Owner (${admin.email})`);
    await page.getByRole("link", { name: "Project created" }).click();
    await g.at("Project created");
    await page.getByText(admin.email).waitFor();
    await g.show("home");
    const recent = page.getByRole("listitem").filter({ hasText: "Project created" });
    await recent.getByText(admin.email).waitFor();

    // A name of nothing visible is none.
    await rename(admin.session, " \u200b\u3164 ");
    await g.show("audit");
    await made.getByRole("link", { name: admin.email }).waitFor();
    await g.show("members");
    const act = async (who: string, what: string): Promise<void> => {
      await button(page, `Actions for ${who}`).click();
      await page.getByRole("menuitem", { name: what }).click();
    };
    await act("Ada Owner", "Change role");
    await dialog(page, "Change role").getByText(`Ada Owner (${t.owner.email})`).waitFor();
    await dialog(page, "Change role").getByRole("button", { name: "Cancel" }).click();
    await act("Ada Owner", "Remove");
    await dialog(page, "Remove Ada Owner").getByText(`Ada Owner (${t.owner.email})`).waitFor();
    await dialog(page, "Remove Ada Owner").getByRole("button", { name: "Cancel" }).click();
    await act(admin.email, "Remove");
    await dialog(page, `Remove ${admin.email}`).getByText(`${admin.email} loses access`).waitFor();
    await expectAccessible(page);
    await g.expectClean();
  });

  it("shows a secret key once, rotates it and revokes it", async () => {
    const t = await ownWorkspace(suite.instance);
    const g = await open(t, { page: "developers", env: "test" });
    const { page } = g;
    await g.at("Developers");
    await button(page, "Create secret key").click();
    const create = dialog(page, "Create secret key");
    // The band is about the key, not about the page.
    await create.getByLabel("Environment").selectOption("Live");
    await expect.poll(() => create.getByText("Test data", { exact: true }).count()).toBe(0);
    await create.getByLabel("Environment").selectOption("Test");
    await expect.poll(() => create.getByText("Test data", { exact: true }).count()).toBe(1);
    await create.getByLabel(/^Name/).fill("CI");
    await create.getByLabel("Access").selectOption("some");
    await create.getByLabel("Verify keys").uncheck();
    await create.getByRole("button", { name: "Create secret key" }).click();
    await create.getByText("Access: choose at least one permission.").waitFor();
    await create.getByLabel("Verify keys").check();
    await create.getByRole("button", { name: "Create secret key" }).click();
    const reveal = dialog(page, "Save this key now");
    await reveal.getByRole("button", { name: "Show" }).click();
    const secret = await reveal.locator("code").innerText();
    expect(secret).toMatch(/^krsk_test_/);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await reveal.getByLabel("I have stored it").check();
    await reveal.getByRole("button", { name: "Done" }).click();
    const held = await page.evaluate<string>("document.documentElement.outerHTML + JSON.stringify(sessionStorage)");
    expect(held.includes(secret)).toBe(false);
    const row = page.getByRole("row", { name: /^CI/ });
    await row.getByText("verify").waitFor();
    const verifies = await suite.instance.call(secret, "GET /v1/tenants");
    expect(verifies.status).toBe(403);
    await expectAccessible(page);

    await button(page, "Actions for CI").click();
    await page.getByRole("menuitem", { name: "Rotate" }).click();
    await field(page, "The old key stops working").selectOption("0");
    await button(page, "Rotate key").click();
    await dialog(page, "Save this key now").getByLabel("I have stored it").check();
    await button(page, "Done").click();
    await page.getByRole("row", { name: /^CI/ }).getByText("Expired").waitFor();

    await button(page, "Actions for CI").first().click();
    await page.getByRole("menuitem", { name: "Revoke" }).click();
    await dialog(page, "Revoke CI")
      .getByLabel(/^Reason/)
      .fill("not needed");
    await button(page, "Revoke key").click();
    await page.getByText("Secret key revoked.").waitFor();
    const { body } = await suite.instance.call(t.owner.session, "GET /v1/secret_keys");
    expect(body.data.map((key: { revoked_reason: string | null }) => key.revoked_reason)).toContain("not needed");
    await g.expectClean();
  });

  it("lists this session and the newest others, and counts the older ones", async () => {
    const t = await shop(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, t);
    const { page } = g;
    await page.route("**/v1/auth/sessions", async (route) => {
      const response = await route.fetch();
      const { data, ...list } = await response.json();
      const [current] = data.filter((one: { current: boolean }) => one.current);
      const others = Array.from({ length: 60 }, (_, i) => ({ ...current, id: `other-${i}`, current: false }));
      await route.fulfill({ response, json: { ...list, data: [...others, current] } });
    });
    await page.goto(`${suite.instance.url}/#/account`);
    const rows = page.getByRole("table", { name: "Sessions" }).locator("tbody tr");
    await expect.poll(() => rows.count()).toBe(50);
    await rows.first().getByText("This session").waitFor();
    await page.getByText("and 11 older sessions").waitFor();
    await g.expectClean();
  });
});
