// The first minutes with a new server: setup link, first keys, first verified request, first revocation; and links that
// do not work.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { expectAccessible, guest } from "../../../harness/browser/pages.ts";
import { button, field, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { PASSWORD } from "../../../harness/instances/people.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";
import { tempDir } from "../../../harness/processes/cli.ts";
import { cleanEnv, startProcess, startServer } from "../../../harness/processes/server.ts";
import { VERSION } from "../../../src/platform/version.ts";
import { issueSetupLink } from "../../../src/domain/workspaces/setup-tokens.ts";

async function fill(page: Parameters<typeof field>[0], password = PASSWORD): Promise<void> {
  await field(page, "Email").fill("ada@example.com");
  await field(page, "Password").fill(password);
  await field(page, "Workspace name").fill("Ácme & Söhne");
}

describe.runIf(hasBrowser)("setting up a server", () => {
  const suite = useBrowserSuite();

  it("leads from the printed link to a verified request, a green checklist and an acknowledged revocation", async () => {
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
      await fill(page);
      expect(await field(page, "Workspace slug").inputValue()).toBe("acme-sohne");
      await button(page, "Create workspace").click();
      await g.at("Ready");
      await expectAccessible(page);
      await step("Connect a verifier").getByText("To do").waitFor();
      await button(page, "Show keys in the snippet").click();
      const snippet = await page.getByRole("region", { name: "Terminal snippet" }).innerText();
      const env = Object.fromEntries(
        [...snippet.matchAll(/(KEYRACK_\w+)=(\S+)/g)].map(([, name = "", value = ""]) => [name, value]),
      );
      // The command works although keyrack is not on PATH.
      const [, program = ""] = /^KEYRACK_SECRET_KEY=\S+ (.+) gateway &$/m.exec(snippet) ?? [];
      expect(execFileSync("sh", ["-c", `${program} version`], { env: cleanEnv(), encoding: "utf8" })).toContain(
        VERSION,
      );
      const [, key = ""] = /Bearer (\S+)"/.exec(snippet) ?? [];
      const gateway = await startProcess(["gateway", "--json", "--port", "0"], env);
      try {
        const reply = await fetch(`${gateway.ready.url}/verify`, { headers: { authorization: `Bearer ${key}` } });
        expect(reply.status).toBe(200);
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
          .getByText(/Acknowledged after/)
          .waitFor();
        const refused = await fetch(`${gateway.ready.url}/verify`, { headers: { authorization: `Bearer ${key}` } });
        expect(refused.status).toBe(401);
      } finally {
        await gateway.end("SIGTERM");
      }
      await g.open(String(server.ready.setup_url)); // as after a reload of Ready
      await g.at("Home");
      await g.expectClean();
    } finally {
      await server.end("SIGTERM");
    }
  });

  it("keeps a link that a weak password did not use up, and treats used and foreign links alike", async () => {
    await using own = await testInstance("sqlite");
    const link = (await issueSetupLink(own.app.services)).url;
    await using g = await guest(suite.browser);
    await g.open(`${own.url}/#/setup?token=krset_made_up`);
    await fill(g.page);
    await button(g.page, "Create workspace").click();
    await g.at("This setup link has expired or was already used");
    await g.page.getByText("keyrack setup link").waitFor();
    await g.open(link);
    await fill(g.page, "password1234");
    await button(g.page, "Create workspace").click();
    await g.page.getByText("Password is one of the most common passwords.").waitFor();
    await field(g.page, "Password").fill(PASSWORD);
    await button(g.page, "Create workspace").click();
    await g.at("Ready");
    expect((await own.call(null, "GET /v1/setup")).body.open).toBe(false);
    const { page } = g;
    const asked: string[] = [];
    page.on("dialog", (question) => {
      asked.push(question.message());
      void question.dismiss();
    });
    // One of two keys is stored: leaving would lose the other.
    const downloads = page.waitForEvent("download");
    await button(page, "Download .env").first().click();
    await downloads;
    await page.getByRole("link", { name: "Open the workspace" }).click();
    await expect.poll(() => asked).toEqual(["Leave without storing the key? It is not shown again."]);
    await g.at("Ready");
    // Without the clipboard, what is selected for copying runs as it is.
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
    await button(page, "Copy Terminal snippet").click();
    await expect.poll(() => page.evaluate<string>("String(getSelection())")).toMatch(/Bearer kr_test_[\w-]{40}"/);
    await page.emulateMedia({ media: "print" });
    expect(await page.locator("code:visible", { hasText: "krsk_test_" }).count()).toBe(0);
    await page.emulateMedia({ media: "screen" });
    await button(page, "Download .env").last().click();
    await page.getByRole("link", { name: "Open the workspace" }).click();
    await g.at("Home");
    await g.expectClean();
  });
});
