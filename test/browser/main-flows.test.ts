// The main flows in a browser: the first minutes with a new server (setup link, first keys, first verified request,
// first revocation); the dashboard by keyboard alone; the life of a key in the portal. One file, so one browser.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser, visit } from "../../harness/browser/browser.ts";
import { shop } from "../../harness/browser/dashboard.ts";
import { expectAccessible, guest } from "../../harness/browser/pages.ts";
import { button, field, fillSetup, useBrowserSuite } from "../../harness/browser/suite.ts";
import { vendorPage } from "../../harness/browser/vendor-page.ts";
import { PASSWORD } from "../../harness/instances/people.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { cleanEnv, startServer } from "../../harness/processes/server.ts";
import { unusedPort } from "../../harness/processes/unused-port.ts";

/** Where the snippet starts its gateway. */
const PORT = 4748;

/** Runs it in a shell, up to the end of its last command; what it started in the background runs until `end`. */
async function runSnippet(text: string): Promise<{ output: string; end: () => Promise<void> }> {
  // A group of its own, which the gateway stays in.
  const shell = spawn("sh", ["-c", text], { env: cleanEnv(), detached: true, stdio: ["ignore", "pipe", "ignore"] });
  let output = "";
  shell.stdout.setEncoding("utf8").on("data", (part: string) => (output += part));
  await once(shell, "exit");
  const closed = once(shell, "close"); // the gateway has the other end of the pipe
  const end = async (): Promise<void> => {
    process.kill(-(shell.pid ?? 0), "SIGTERM");
    await closed;
  };
  return { output, end };
}

const STOPS_MAX = 60;
const FOCUSED = `(({ labels, innerText, ariaLabel }) => ariaLabel ?? labels?.[0]?.innerText ?? innerText)(document.activeElement)`;

/** Presses Tab until the element with this name has the focus. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  const seen: string[] = [];
  for (let i = 0; i < STOPS_MAX; i++) {
    await page.keyboard.press("Tab");
    const focused = String(await page.evaluate(FOCUSED)).trim();
    if (name.test(focused)) return;
    seen.push(focused);
  }
  throw new Error(`no ${String(name)} among: ${seen.join(" · ")}`);
}

describe.runIf(hasBrowser)("in a browser", () => {
  const suite = useBrowserSuite();

  it("setting up a server leads from the printed link to a verified request, a green checklist and an acknowledged revocation", async () => {
    using temp = tempDir();
    const server = await startServer(["--data-dir", join(temp.dir, "data")]);
    await using g = await guest(suite.browser);
    const { page } = g;
    const step = (name: string) =>
      page.getByRole("list", { name: "Checklist" }).getByRole("listitem").filter({ hasText: name });
    try {
      await g.open(server.ready.url);
      await g.at("Set up this server");
      await g.open(String(server.ready.setup_url));
      await fillSetup(page);
      await expect.poll(() => field(page, "Workspace slug").inputValue()).toBe("acme-sohne");
      await button(page, "Create workspace").click();
      await g.at("Ready");
      await expectAccessible(page);
      await step("Connect a verifier").getByText("To do").waitFor();
      await button(page, "Show keys in the snippet").click();
      const snippet = await page.getByRole("region", { name: "Terminal snippet" }).innerText();
      const [, key = ""] = /Bearer (\S+)"/.exec(snippet) ?? [];
      // As printed, although keyrack is not on PATH; but at a port that nothing else on this machine uses.
      expect(snippet).toContain(`:${PORT}/`);
      const port = await unusedPort();
      const gateway = await runSnippet(
        snippet.replace("gateway &", `gateway --port ${port} &`).replace(`:${PORT}/`, `:${port}/`),
      );
      try {
        expect(gateway.output).toMatch(/^HTTP\/1\.1 200 /m);
        await step("Connect a verifier").getByText("Done").waitFor();
        await step("First verified request").getByText("Done").waitFor();
        page.on("dialog", (asked) => void asked.accept());
        await page.getByRole("link", { name: "Open the workspace" }).click();
        await g.at("Home");
        await page.getByRole("link", { name: "Keys", exact: true }).click();
        await page.getByRole("link", { name: /First key/ }).click();
        await g.at("First key");
        await button(page, "Revoke").click();
        await button(page, "Revoke key").click();
        await page.getByText("1 of 1 node has the change.").waitFor();
        await page
          .getByRole("list", { name: "Nodes" })
          .getByText(/Acknowledged within/)
          .waitFor();
        const refused = await fetch(`http://127.0.0.1:${port}/verify`, { headers: { authorization: `Bearer ${key}` } });
        expect(refused.status).toBe(401);
      } finally {
        await gateway.end();
      }
      await g.open(String(server.ready.setup_url)); // as after a reload of Ready
      await g.at("Home");
      await page.getByLabel("Live", { exact: true }).click();
      await expect.poll(() => page.url()).toContain("/live/home");
      await step("First verified request").getByText("Done").waitFor(); // although it was in test
      await g.expectClean();
    } finally {
      await server.end("SIGTERM");
    }
  });

  it("the keyboard alone logs in, creates a key, revokes it and verifies the audit log", async () => {
    const t = await shop(suite.instance);
    await using g = await guest(suite.browser);
    const { page } = g;
    const { keyboard } = page;
    const opened = (name: string) => page.getByRole("dialog", { name, exact: true }).locator(":focus").waitFor();

    await g.open(`${suite.instance.url}/#/w/${t.slug}/live/home`);
    await g.at("Log in");
    await tabTo(page, /^Email$/);
    await keyboard.type(t.owner.email);
    await tabTo(page, /^Password$/);
    await keyboard.type(PASSWORD);
    await keyboard.press("Enter");
    await g.at("Home");

    await keyboard.press("Control+k");
    await opened("Command palette");
    await keyboard.type("create key");
    await keyboard.press("Enter");
    await opened("Create key");
    await tabTo(page, /^Tenant$/);
    await keyboard.type("glob");
    await page.getByRole("option", { name: /globex/ }).waitFor();
    await keyboard.press("Enter");
    await tabTo(page, /^Name/);
    await keyboard.type("Production");
    await keyboard.press("Enter");
    await opened("Save this key now");
    await expect.poll(() => page.evaluate(FOCUSED)).toBe("Copy");
    await tabTo(page, /^I have stored it$/);
    await keyboard.press("Space");
    await tabTo(page, /^Done$/);
    await keyboard.press("Enter");
    await g.at("Production");
    await expect.poll(() => page.evaluate("document.activeElement.tagName")).toBe("H1");

    await page.locator("time[tabindex]").first().focus(); // shows the exact time
    const exact = "getComputedStyle(document.activeElement, '::after').content";
    await expect.poll(() => page.evaluate<string>(exact)).toMatch(/\d{4}-\d\d-\d\dT.*Z/);
    await page.locator("h1").focus();
    await tabTo(page, /^Revoke$/);
    await keyboard.press("Enter");
    await opened("Revoke Production");
    await expect.poll(() => page.evaluate(FOCUSED)).toBe("Cancel");
    await keyboard.press("Tab");
    await expect.poll(() => page.evaluate(FOCUSED)).toBe("Revoke key");
    await keyboard.press("Enter");
    await opened("Key revoked");
    await keyboard.press("Enter"); // Done has the focus
    await page.getByText(/Revoked on/).waitFor();

    await keyboard.press("g");
    await keyboard.press("a");
    await g.at("Audit");
    await tabTo(page, /^Verify in this browser$/);
    await keyboard.press("Enter");
    await page.getByText(/^Verified: \d+ rows, in this browser/).waitFor();
    await g.expectClean();
  });

  it("<keyrack-portal>, on a page of another origin under a strict content policy, creates, copies, rotates and revokes a key", async () => {
    const workspace = await suite.instance.workspace();
    await using site = await vendorPage(suite.instance, workspace);
    const permissions = ["clipboard-read", "clipboard-write"];
    await using v = await visit(suite.browser, site.origin, { permissions });
    const { page } = v;
    await page.getByText("No keys yet").waitFor();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("textbox", { name: /^Name/ }).fill("Billing server");
    await page.getByRole("checkbox", { name: "orders:read" }).check();
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    const shown = page.getByRole("textbox", { name: "Your key" });
    await shown.waitFor();
    const key = await shown.inputValue();
    expect(key).toMatch(/^kr_live_[\w-]{40}$/);
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toBe(key);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await expect.poll(() => shown.inputValue()).toBe(key); // Escape does not lose the only copy
    await page.getByRole("button", { name: "I have saved it" }).click();
    await shown.waitFor({ state: "detached" });
    await page.getByRole("heading", { name: "Billing server" }).waitFor();
    expect((await page.locator("body").innerHTML()).includes(key)).toBe(false);
    expect(await allText(page)).not.toContain(key);
    await page.getByText(`${key.slice(0, 14)}…`).waitFor();

    await page.getByRole("button", { name: "Rotate: Billing server" }).click();
    await page.getByLabel("Keep the old key working for").selectOption("1 hour");
    await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
    const next = await shown.inputValue();
    expect(next).not.toBe(key);
    await page.getByText(/The old key kr_live_.{6}… works until/).waitFor();
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByText("Being replaced").waitFor();
    await expect.poll(() => page.getByRole("button", { name: "Rotate: Billing server" }).count()).toBe(1);

    await page.getByRole("button", { name: "Revoke: Billing server" }).first().click();
    await page.getByText("This cannot be undone.").waitFor();
    await page.getByRole("textbox", { name: "Reason" }).fill("moved to a new server");
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expect.poll(() => page.getByRole("heading", { level: 3 }).count()).toBe(1);
    await page.getByLabel("Show revoked keys").check();
    await page.getByText("moved to a new server").waitFor();
    await expectAccessible(page);
    expect(await workspace.actions()).toEqual([
      "workspace.updated",
      "api_key.created",
      "api_key.rotated",
      "api_key.revoked",
    ]);
    await expect
      .poll(() => page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]"))
      .toEqual(["", 0, 0]);
    expect(await v.context.cookies()).toEqual([]);
    expect(v.errors).toEqual([]);
  });
});

/** Every text in the portal's shadow tree, including the values of fields. */
function allText(page: Page): Promise<string> {
  return page.evaluate(`(() => {
    const root = document.querySelector("keyrack-portal").shadowRoot;
    const values = [...root.querySelectorAll("input")].map((input) => input.value);
    return [root.textContent, ...values, document.documentElement.outerHTML].join(" ");
  })()`);
}
