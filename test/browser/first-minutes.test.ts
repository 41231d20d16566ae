// The first minutes with a new server in a browser: setup link, first keys, first verified request, first revocation.
// Every other flow is in the folders here.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../harness/browser/browser.ts";
import { expectAccessible, guest } from "../../harness/browser/pages.ts";
import { button, field, fillSetup, useBrowserSuite } from "../../harness/browser/suite.ts";
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
});
