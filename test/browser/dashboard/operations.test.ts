// The audit log with its verification in the browser, the fleet, leaks, and the instance.
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { shop, signedIn, useOwnerPage } from "../../../harness/browser/dashboard.ts";
import { expectAccessible, expectAccessibleInLooks, LOOKS, setLook } from "../../../harness/browser/pages.ts";
import { button, dialog, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { keyrack } from "../../../harness/processes/cli.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";
import { reportLeaks } from "../../../src/domain/leaks/leaks.ts";

describe.runIf(hasBrowser)("audit, fleet, leaks and instance", () => {
  const suite = useBrowserSuite();
  const open = useOwnerPage(suite);

  it("verifies the audit log in the browser, and names a row that was altered on its way", async () => {
    const t = await shop(suite.instance);
    await suite.instance.call(t.owner.session, `PATCH /v1/tenants/${t.tenant_id}`, { name: "Globex Corp." });
    const g = await open(t, { page: "audit", env: "test" });
    const { page } = g;
    await page.getByText("Test data").waitFor();
    const log = page.getByRole("table", { name: "Audit log" });
    await log.getByRole("link", { name: "Globex Corp." }).first().waitFor(); // the target by its name
    await log.getByRole("cell", { name: `Workspace member ${t.owner.email}` }).waitFor(); // by what the row says
    await log.getByRole("link", { name: "Tenant updated" }).click();
    await g.at("Tenant updated");
    const changed = page.getByRole("row", { name: /^name/ });
    await expect.poll(() => changed.getByRole("cell").allInnerTexts()).toEqual(["Globex", "Globex Corp."]);
    await expectAccessible(page);

    await page.getByRole("link", { name: "Audit" }).first().click();
    await button(page, "Verify in this browser").click();
    await page.getByText(/^Verified: 6 rows, in this browser, at /).waitFor();
    await page.getByText("6 rows; the signature is valid.").waitFor();
    await button(page, "Verify on the server").click();
    await page.getByText("Verified: 6 rows, by the server").waitFor();
    await page.route("**/v1/audit_logs/chain", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), verified: false } });
    });
    await button(page, "Verify on the server").click();
    await page.getByText("Not verified by the server").waitFor();
    await page.unroute("**/v1/audit_logs/chain");
    await page.getByLabel("Action").selectOption("tenant.*");
    await expect.poll(() => log.getByRole("row").count()).toBe(3);
    await page.getByLabel("Action").selectOption("");
    const { email } = t.owner;
    await log
      .getByRole("row", { name: /Tenant updated/ })
      .getByRole("link", { name: email })
      .click();
    await expect.poll(() => page.getByLabel("Actor").locator("option:checked").innerText()).toBe(email);
    // Not what others did, such as the row about the workspace itself.
    await expect
      .poll(() => log.getByRole("link", { name: email }).count())
      .toBe((await log.getByRole("row").count()) - 1);
    await button(page, "Clear filters").click();
    await page.getByRole("textbox", { name: "Target id" }).fill(t.project_id);
    await page.keyboard.press("Enter");
    await expect.poll(() => log.getByRole("row").count()).toBe(2);
    await expectAccessible(page);

    // The command line accepts the file. A longer log is not for a file of the browser.
    const saved = page.waitForEvent("download");
    await button(page, "Download").click();
    const file = await (await saved).path();
    const { code, stdout } = await keyrack(["audit", "verify", "--file", file]);
    expect([code, stdout]).toEqual([0, expect.stringContaining("6")]);
    await page.route("**/v1/audit_logs/export", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, headers: { ...response.headers(), "audit-to-seq": "50001" } });
    });
    await button(page, "Download").click();
    await page.getByText("keyrack audit export > audit.jsonl").waitFor();
    await page.unroute("**/v1/audit_logs/export");

    // The server's own check passes; the browser does not trust it.
    await page.route("**/v1/audit_logs/export", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()).replace("Globex Corp.", "Globex Inc.") });
    });
    await button(page, "Verify in this browser").click();
    await page.getByText(/Row 6, in this browser: its content does not match its hash/).waitFor();
    await page.unrouteAll();
    await g.expectClean();
  });

  it("shows changed limits and quotas of an audit row as the record's page does", async () => {
    const t = await shop(suite.instance);
    const plan = (await suite.instance.call(t.owner.session, "POST /v1/plans", { name: "Pro", slug: "pro" })).body;
    await suite.instance.call(t.owner.session, `PATCH /v1/plans/${plan.id}`, {
      rate_limits: [{ id: "a", limit: 100, window_ms: 60_000, algorithm: "sliding", scope: "key" }],
      quotas: [{ id: "calls", amount: 1000, refill: "monthly" }],
    });
    const g = await open(t, { page: "audit" });
    await g.page.getByRole("link", { name: "Plan updated" }).click();
    await g.at("Plan updated");
    const after = (field: string) => g.page.getByRole("row", { name: field }).getByRole("cell").allInnerTexts();
    await expect.poll(() => after("rate_limits")).toEqual(["Inherited", "100 / minute"]);
    expect(await after("quotas")).toEqual(["[]", "1,000 a month calls"]);
    await g.expectClean();
  });

  it("notices that rows which this browser verified are gone", async () => {
    const t = await shop(suite.instance);
    await using g = await signedIn(suite.browser, suite.instance, t, {
      page: "audit",
      timezoneId: "America/Los_Angeles",
    });
    const { page } = g;
    const asked = page.waitForRequest(/audit_logs\?.*from=/);
    await g.show("audit?from=2026-11-16&to=2026-11-17"); // days as the times are shown: local ones
    const { searchParams } = new URL((await asked).url());
    expect([searchParams.get("from"), searchParams.get("to")]).toEqual([
      "2026-11-16T08:00:00.000Z",
      "2026-11-18T08:00:00.000Z",
    ]);
    await g.show("audit");
    await button(page, "Verify in this browser").click();
    await page.getByText(/^Verified: 5 rows/).waitFor();
    await button(page, "Verify in this browser").click();
    await page.getByText(/^Continues the log this browser saw on .* \(row 5\)\.$/).waitFor();
    await page.evaluate(
      `localStorage.setItem("keyrack:/:audit:${t.id}", JSON.stringify({ seq: 9, hash: "0", at: new Date().toISOString() }))`,
    );
    await button(page, "Verify in this browser").click();
    await page.getByText("Row 9 is not the row this browser saw.").waitFor();
    await expect.poll(() => page.getByText("Continues the log").count()).toBe(0);
    await g.expectClean();
  });

  it("shows nodes as they connect, and the server's components", async () => {
    const t = await shop(suite.instance);
    const g = await open(t, { page: "fleet" });
    const { page } = g;
    await page.emulateMedia({ colorScheme: "dark" });
    await page.getByRole("heading", { name: "No node is connected" }).waitFor();
    const poll = `GET /v1/policy/delta?project_id=${t.project_id}&node=api-1&since=1`;
    await suite.instance.call(t.key, poll, undefined, { headers: { "keyrack-sdk": "@keyrack/sdk/1.2.3" } });
    await page.getByText("1 of 1 live node is current.").waitFor();
    const nodes = page.getByRole("table", { name: "Nodes" });
    await nodes.getByRole("rowheader", { name: "api-1" }).waitFor();
    await nodes.getByRole("cell", { name: "@keyrack/sdk 1.2.3" }).waitFor();
    await nodes.getByRole("cell", { name: "None", exact: true }).first().waitFor(); // capabilities
    const own = { ts: new Date(suite.instance.clock.now()).toISOString(), project_id: t.project_id, request_id: "r1" };
    const batch = telemetryBatch([telemetryEvent({ ...own, degraded: true })], { node_id: "api-1" });
    await suite.instance.call(t.key, "POST /v1/ingest/batch", batch);
    await page.getByText("1 of 1 live node is current. 1 is degraded.").waitFor();
    await nodes.getByRole("cell", { name: "Current Degraded" }).waitFor();
    await expectAccessible(page);
    await page.route("**/v1/instance", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), counters: "a newer kind" } });
    });
    await page.getByRole("link", { name: "Instance" }).click();
    await g.at("Instance");
    await page.getByText("a newer kind").waitFor(); // shown as it is
    await page.getByText("Written to files, not delivered").waitFor();
    await page.getByText("Scheduled backups are off.").waitFor();
    await expectAccessible(page);
    await g.expectClean();
  });

  it("lists leaked keys with their source, and replaces them", async () => {
    const t = await shop(suite.instance);
    const { project_id, tenant_id } = t;
    const want = { project_id, tenant_id, env: "live", name: "CI" };
    const { key, id } = (await suite.instance.call(t.owner.session, "POST /v1/keys", want)).body;
    const other = (await suite.instance.call(t.owner.session, "POST /v1/keys", { ...want, name: "Other" })).body;
    const g = await open(t, { page: "leaks" });
    const { page } = g;
    await page.getByRole("heading", { name: "No key has leaked" }).waitFor();
    // Not while it is unknown whether a secret key has.
    await page.route("**/v1/secret_keys*", (route) => route.fulfill({ status: 409, json: {} }));
    const [asked] = await Promise.all([page.waitForRequest(/\/v1\/secret_keys\?/), page.reload()]);
    expect(asked.url()).toContain("?env=live&state=quarantined&"); // not the newest of all
    await page.getByText("This could not be loaded.").waitFor();
    expect(await page.getByRole("heading", { name: "No key has leaked" }).count()).toBe(0);
    await page.unroute("**/v1/secret_keys*");
    await button(page, "Try again").click();
    await page.getByRole("heading", { name: "No key has leaked" }).waitFor();
    const { services } = suite.instance.app;
    const location = "https://git.example.com/config.js";
    for (const token of [other.key, key])
      await reportLeaks({ services, actor: { kind: "scanner" } }, [{ token, type: "keyrack_api_key", location }]);
    await g.show("home");
    await g.show("leaks");
    const row = page.getByRole("table", { name: "Leaked keys" }).getByRole("row").filter({ hasText: "CI" });
    const link = row.getByRole("link", { name: "git.example.com", exact: true });
    await expect.poll(() => link.getAttribute("href")).toBe(location);
    await expect.poll(() => link.getAttribute("rel")).toBe("noopener noreferrer");
    await row.getByText("/config.js").waitFor();
    await row.getByText(/^in (1 hr|\d+ min)$/).waitFor();
    await expectAccessible(page);
    await button(page, "Rotate CI").click(); // a rotation never extends a key
    const { expires_at } = (await suite.instance.call(t.owner.session, `GET /v1/keys/${id}`)).body;
    await expect.poll(() => dialog(page, "Rotate CI").locator("time").getAttribute("datetime")).toBe(expires_at);
    const overlaps = dialog(page, "Rotate CI").getByLabel("The old key stops working").getByRole("option");
    await expect.poll(() => overlaps.allInnerTexts()).toEqual(["Now, without overlap", "When it expires"]);
    await row.locator(".badge", { hasText: "Not replaced" }).waitFor();
    await button(page, "Rotate key").click();
    await page.getByLabel("I have stored it").check();
    await button(page, "Done").click();
    await dialog(page, "Key rotated").getByRole("button", { name: "Close" }).click();
    await row.locator(".badge", { hasText: /^Replaced$/ }).waitFor();
    expect(await button(page, "Rotate CI").count()).toBe(0); // a second rotation would make a third key
    await expectAccessible(page);
    await suite.instance.call(t.owner.session, `POST /v1/keys/${other.id}/disable`, {});
    await g.show("home");
    await g.show("leaks");
    await expect.poll(() => button(page, "Rotate Other").getAttribute("aria-disabled")).toBe("true");
    await page.goto(`${suite.instance.url}/#/w/${t.slug}/live/keys`);
    await button(page, "Actions for Other").click();
    await expect.poll(() => button(page, "Actions for Other").getAttribute("aria-expanded")).toBe("true");
    const rotate = page.getByRole("menuitem", { name: "Rotate", exact: true });
    const reason = `#${await rotate.getAttribute("aria-describedby")}`;
    await expect.poll(() => page.locator(reason).textContent()).toBe("The key is disabled. Enable it first.");
    await page.keyboard.press("Escape");
    await g.show("leaks");
    const focused = () => page.evaluate<string>("document.activeElement.innerText");
    for (const [name, next] of [
      ["CI", /^Other/], // the next row
      ["Other", /^Leaks$/], // there is none: the heading
    ] as const) {
      await button(page, `Revoke ${name}`).click();
      await button(page, "Revoke key").click();
      await dialog(page, "Key revoked").waitFor();
      await row.filter({ hasText: name }).waitFor({ state: "detached" });
      await button(page, "Done").click();
      await expect.poll(focused).toMatch(next);
    }
    await page.getByRole("heading", { name: "No key has leaked" }).waitFor();
    const { revoked_at } = (await suite.instance.call(t.owner.session, `GET /v1/keys/${id}`)).body;
    expect(revoked_at).toEqual(expect.any(String));
    await g.expectClean();
  });

  it("raises an alert for every leaked key, secret keys included, until it is replaced", async () => {
    const t = await shop(suite.instance);
    const { project_id, tenant_id } = t;
    const want = { project_id, tenant_id, env: "live", name: "CI" };
    const key = (await suite.instance.call(t.owner.session, "POST /v1/keys", want)).body;
    const secret = (
      await suite.instance.call(t.owner.session, "POST /v1/secret_keys", { env: "live", name: "Backend" })
    ).body;
    const { services } = suite.instance.app;
    const leak = (token: string, type: string) =>
      reportLeaks({ services, actor: { kind: "scanner" } }, [{ token, type, location: "https://git.example.com/a" }]);
    await leak(secret.key, "keyrack_secret_key");
    const g = await open(t, { page: "home" });
    const { page } = g;
    const alert = page.locator(".leak-alert");
    await alert
      .getByText(/^1 leaked key has not been replaced\. It stops working in (1 hour|\d+ minutes)\.$/)
      .waitFor();
    await expect.poll(() => page.locator(".main-nav .nav-count").innerText()).toMatch(/^1\s+leaked key to replace$/);
    // axe does not check the contrast of a single character.
    await page.evaluate("document.querySelector('.main-nav .nav-count').firstChild.textContent = '12'");
    await expectAccessibleInLooks(page);
    await setLook(page, LOOKS[0][1]);
    await leak(key.key, "keyrack_api_key");
    await suite.instance.call(t.owner.session, `POST /v1/secret_keys/${secret.id}/rotate`, {});
    await g.show(`keys/${key.id}`);
    await page.getByText(/It stops working in .*\. Rotate it and deploy the new key before then\.$/).waitFor();
    const next = (await suite.instance.call(t.owner.session, `POST /v1/keys/${key.id}/rotate`, {})).body;
    await page.reload();
    const line = page.getByText(/It has been replaced by CI\. It stops working in [^.]*\.$/);
    await line.waitFor();
    await expect.poll(() => line.getByRole("link", { name: "CI" }).getAttribute("href")).toContain(`keys/${next.id}`);
    suite.instance.clock.advance(3_000); // figures are kept for two seconds
    await g.show("home");
    await page.getByText("Leaked", { exact: true }).waitFor();
    await expect.poll(() => alert.count()).toBe(0);
    await expect.poll(() => page.locator(".nav-count").count()).toBe(0);
    await g.expectClean();
  });
});
