// Takes the pictures of docs/dashboard.md and docs/people.md: starts the demonstration and visits its pages in a browser, in a light, a dark
// and a phone-sized window. `npm run screenshots -- DIR` takes every page, into DIR instead of docs/images.
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { launchBrowser, visit } from "../harness/browser/browser.ts";
import { startServer } from "../harness/processes/server.ts";
import { runScript } from "./script.ts";

const DOCS = fileURLToPath(new URL("../docs/images/", import.meta.url));

const LOOKS = [
  ["light", { colorScheme: "light", viewport: { width: 1200, height: 760 } }],
  ["dark", { colorScheme: "dark", viewport: { width: 1200, height: 760 } }],
  ["phone", { colorScheme: "light", viewport: { width: 375, height: 760 } }],
] as const;

/** Page → its heading. */
const SHOWN = { home: "Home", keys: "Keys", usage: "Usage", fleet: "Fleet" };
const OTHERS = {
  leaks: "Leaks",
  tenants: "Tenants",
  projects: "Projects",
  audit: "Audit",
  portal: "Portal",
  plans: "Plans",
  developers: "Developers",
  members: "Members",
  settings: "Settings",
  instance: "Instance",
};

/** Pages behind links in mail. They use their token only when a button is pressed. */
const LINKED = ["verify", "reset", "invite"];

type Demo = { url: string; owner_email: string; owner_password: string };

async function takePictures(demo: Demo, pages: Record<string, string>, folder: string): Promise<void> {
  const { url } = demo;
  const browser = await launchBrowser();
  for (const [look, options] of LOOKS) {
    const { page, context } = await visit(browser, url, options);
    for (const name of LINKED) {
      await page.goto(`${url}/#/${name}?token=example`);
      await page.locator("form").waitFor();
      await page.screenshot({ path: `${folder}/pages-${name}-${look}.png`, animations: "disabled" });
    }
    await page.goto(`${url}/#/login`);
    await page.getByLabel("Email", { exact: true }).fill(demo.owner_email);
    await page.getByLabel("Password", { exact: true }).fill(demo.owner_password);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.mouse.move(0, 0); // what is below the pointer looks different
    for (const [name, title] of Object.entries(pages)) {
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.goto(`${url}/#/w/demo/live/${name}`);
      await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
      await page.locator(".skeleton").first().waitFor({ state: "detached" });
      await page.waitForLoadState("networkidle");
      await page.screenshot({ path: `${folder}/dashboard-${name}-${look}.png`, animations: "disabled" });
    }
    await context.close();
  }
  await browser.close();
}

await runScript(async () => {
  const [folder] = process.argv.slice(2);
  mkdirSync(folder ?? DOCS, { recursive: true });
  const server = await startServer(["--ephemeral", "--demo"]);
  try {
    const pages = folder ? { ...SHOWN, ...OTHERS } : SHOWN;
    await takePictures(server.ready as unknown as Demo, pages, folder ? resolve(folder) : DOCS);
  } finally {
    await server.end("SIGTERM");
  }
});
