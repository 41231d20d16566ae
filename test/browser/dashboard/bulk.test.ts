// Many keys at once in the dashboard: selecting, counting, progress, continuing after a lost answer.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn, useOwnerPage, type Shop } from "../../../harness/browser/dashboard.ts";
import { expectAccessible } from "../../../harness/browser/pages.ts";
import { button, dialog, useBrowserSuite } from "../../../harness/browser/suite.ts";

type Row = { target_id: string; payload: { reason: string; bulk_id: string } };

describe.runIf(hasBrowser)("many keys in the dashboard", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  const mint = async ({ key, project_id, tenant_id }: Shop, count: number): Promise<string[]> => {
    const ids: string[] = [];
    for (let i = 1; i <= count; i++) {
      const body = { project_id, tenant_id, env: "live", name: `Key ${i}` };
      ids.push((await suite.instance.call(key, "POST /v1/keys", body)).body.id as string);
    }
    return ids;
  };
  const revocations = async ({ key }: Shop): Promise<Row[]> =>
    (await suite.instance.call(key, "GET /v1/audit_logs?action=api_key.revoked")).body.data as Row[];

  it("revokes the selected keys after it has named them, and leaves the others", async () => {
    const at = await shop(suite.instance);
    const [first, second, third] = await mint(at, 3);
    await suite.instance.sql("update api_keys set last_used_at = $1 where id = $2", [
      suite.instance.clock.now(),
      String(first),
    ]);
    const g = await open(at, { page: "keys" });
    const { page } = g;
    await page.getByLabel("Select Key 1").check();
    await page.getByLabel("Select Key 3").check();
    const bar = page.getByRole("region", { name: "Selection" });
    await bar.getByText("2 keys selected").waitFor();
    await expectAccessible(page);
    await button(page, "Revoke selected").click();
    const ask = dialog(page, "Revoke selected");
    await ask.getByText("Key 3").waitFor();
    await ask.getByText("1 of 2 keys was used in the last 30 days.").waitFor();
    await expect
      .poll(() => ask.getByRole("listitem").allInnerTexts()) // as in the table
      .toEqual([expect.stringMatching(/^Key 3 /), expect.stringMatching(/^Key 1 /)]);
    await expectAccessible(page);
    await ask.getByLabel(/^Reason/).fill("contract ended");
    const asked = page.waitForEvent("dialog");
    page.once("dialog", (question) => void question.dismiss());
    await page.keyboard.press("Escape");
    expect((await asked).message()).toBe("Discard what you entered?");
    await ask.getByRole("button", { name: "Revoke 2 keys" }).click();
    await ask.getByText("2 keys revoked.").waitFor();
    await ask.getByText("No verifier is connected.").waitFor();
    await button(page, "Done").click();
    await expect.poll(() => page.getByRole("rowheader").allInnerTexts()).toEqual([expect.stringContaining("Key 2")]);
    await expect.poll(() => bar.count()).toBe(0);
    const rows = await revocations(at);
    expect(rows.map(({ target_id }) => target_id).toSorted()).toEqual([String(first), String(third)].toSorted());
    expect(new Set(rows.map(({ payload }) => payload.bulk_id)).size).toBe(1);
    expect(rows[0]?.payload.reason).toBe("contract ended");
    const { body } = await suite.instance.call(at.key, `GET /v1/keys/${second}`);
    expect(body.revoked_at).toBeNull();
    await g.expectClean();
  });

  it("shows its progress, and continues after a lost answer without changing a key twice", async () => {
    const at = await shop(suite.instance);
    const ids = await mint(at, 5);
    const g = await open(at, { page: "keys" });
    const { page } = g;
    let changing = 0;
    await page.route("**/v1/bulk/keys", async (route) => {
      const body = route.request().postDataJSON() as { dry_run: boolean };
      const answer = await route.fetch({ postData: body.dry_run ? body : { ...body, limit: 2 } });
      if (!body.dry_run && ++changing === 2) return route.abort(); // changed, but the answer is lost
      return route.fulfill({ response: answer });
    });
    await page.getByLabel("All rows on this page").check();
    await button(page, "Revoke selected").click();
    const ask = dialog(page, "Revoke selected");
    await ask.getByRole("button", { name: "Revoke 5 keys" }).click();
    await ask.getByText("2 of 5 keys revoked").waitFor();
    await ask.getByRole("alert").getByText("Cannot reach the server.").waitFor();
    await button(page, "Try again").click();
    await ask.getByText("5 keys revoked.").waitFor();
    expect(changing).toBe(4);
    const rows = await revocations(at);
    expect(rows.map(({ target_id }) => target_id).toSorted()).toEqual(ids.toSorted());
    await button(page, "Done").click();
    await page.getByText("No live keys yet").waitFor();
  });

  it("asks before a run is left half-way, continues when the person stays, and keeps the count when they leave", async () => {
    const at = await shop(suite.instance);
    await mint(at, 7);
    const g = await open(at, { page: "keys" });
    const { page } = g;
    const [second, third] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let changing = 0;
    await page.route("**/v1/bulk/keys", async (route) => {
      const body = route.request().postDataJSON() as { dry_run: boolean };
      if (!body.dry_run) await [second.promise, third.promise][++changing - 2];
      const response = await route.fetch({ postData: body.dry_run ? body : { ...body, limit: 2 } });
      await route.fulfill({ response });
    });
    await page.getByLabel("All rows on this page").check();
    await button(page, "Revoke selected").click();
    const ask = dialog(page, "Revoke selected");
    await ask.getByRole("button", { name: "Revoke 7 keys" }).click();
    await ask.getByText("2 of 7 keys revoked").waitFor();
    const question = "Leave now? Keys that were not reached stay unchanged.";
    const questions: string[] = [];
    let leaves = false;
    page.on("dialog", (asked) => {
      questions.push(asked.message());
      void (leaves ? asked.accept() : asked.dismiss());
    });
    await page.evaluate("location.hash += '?state=active'");
    await expect.poll(() => questions).toEqual([question]);
    second.resolve();
    await ask.getByText("4 of 7 keys revoked").waitFor();
    leaves = true;
    await page.evaluate("location.hash += '?state=active'");
    await expect.poll(() => questions).toEqual([question, question]);
    await expect.poll(() => page.url()).toContain("state=active");
    third.resolve();
    await ask.getByText("6 of 7 keys revoked").waitFor();
    await button(page, "Continue").click();
    await ask.getByText("7 keys revoked.").waitFor();
    await button(page, "Done").click();
    await g.expectClean();
  });

  it("acts on every key that the filters match only after their number is typed", async () => {
    const at = await shop(suite.instance);
    await mint(at, 26);
    const g = await open(at, { page: `keys?limit=25&project=${at.project_id}` });
    const { page } = g;
    await page.getByLabel("All rows on this page").check();
    await page.getByText("25 keys selected").waitFor();
    await button(page, "Select every key that matches").click();
    await g.show("keys?limit=25");
    await page.getByLabel("All rows on this page").check();
    await button(page, "Select all live keys").click();
    await page.getByText("Selected: all live keys").waitFor();
    await button(page, "Clear selection").click();
    await page.getByLabel("Select Key 26").check();
    // Without the record of a key it is not called unused.
    await page.route("**/v1/keys?*ids=*", (route) => route.fulfill({ json: { data: [] } }));
    await button(page, "Disable selected").click();
    await page.getByText("Not known whether it was used in the last 30 days.").waitFor();
    await button(page, "Cancel").click();
    await page.unroute("**/v1/keys?*ids=*");
    await page.getByLabel("Select Key 25").check();
    await page.route("**/v1/keys?*ids=*", async (route) => {
      const response = await route.fetch();
      const { data } = (await response.json()) as { data: object[] };
      await route.fulfill({ response, json: { data: data.slice(1) } });
    });
    await button(page, "Disable selected").click();
    await page.getByText("None of the 1 looked up was used in the last 30 days.").waitFor();
    await button(page, "Cancel").click();
    await page.unroute("**/v1/keys?*ids=*");
    await page.getByLabel("Select Key 26").uncheck();
    await button(page, "Disable selected").click();
    await page.getByText("Not used in the last 30 days.").waitFor();
    await page.getByText("Requests with this key are refused until it is enabled again.").waitFor();
    await button(page, "Cancel").click();
    await g.show(`keys?limit=25&project=${at.project_id}`);
    await page.getByLabel("All rows on this page").check();
    await button(page, "Select every key that matches").click();
    await button(page, "Disable selected").click();
    const ask = dialog(page, "Disable selected");
    await ask.getByRole("button", { name: "Disable 26 keys" }).click({ force: true }); // not typed yet: does nothing
    await ask.getByLabel("Type 26 to confirm").fill("2,6"); // as the button writes 1,234
    await ask.getByRole("button", { name: "Disable 26 keys" }).click();
    await ask.getByText("26 keys disabled.").waitFor();
    await button(page, "Done").click();
    const { body } = await suite.instance.call(at.key, "GET /v1/keys?state=disabled&limit=50");
    expect(body.data).toHaveLength(26);
    await g.expectClean();
  });

  it("ends the selection of all keys when a row is unticked, and leaves that key", async () => {
    const at = await shop(suite.instance);
    const ids = await mint(at, 26);
    const g = await open(at, { page: "keys?limit=25" });
    const { page } = g;
    const rows = page.locator("tbody").getByRole("checkbox", { checked: true });
    await page.getByLabel("Select Key 25").check();
    await button(page, "Select all live keys").focus();
    await page.keyboard.press("Enter");
    await page.getByText("Selected: all live keys").waitFor();
    await button(page, "Clear selection").and(page.locator(":focus")).waitFor(); // the pressed button is gone
    await expect.poll(() => rows.count()).toBe(25);
    await page.getByLabel("Select Key 26").uncheck();
    await page.getByText("24 keys selected").waitFor();
    await expect.poll(() => rows.count()).toBe(24);
    await button(page, "Revoke selected").click();
    await button(page, "Revoke 24 keys").click();
    await dialog(page, "Revoke selected").getByText("24 keys revoked.").waitFor();
    await button(page, "Done").click();
    const { body } = await suite.instance.call(at.key, "GET /v1/keys");
    expect(new Set(body.data.map(({ id }: { id: string }) => id))).toEqual(new Set([ids[0], ids[25]]));
    await g.expectClean();
  });

  it("lets members select, but not act", async () => {
    const at = await shop(suite.instance);
    await mint(at, 1);
    await using g = await signedIn(suite.browser, suite.instance, at, { page: "keys", role: "member" });
    const { page } = g;
    await page.getByLabel("Select Key 1").check();
    await button(page, "Revoke selected").click({ force: true });
    await expect.poll(() => button(page, "Revoke selected").getAttribute("aria-disabled")).toBe("true");
    expect(await page.getByRole("dialog").count()).toBe(0);
    await g.expectClean();
  });
});
