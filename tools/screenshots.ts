// Takes the pictures of docs/dashboard.md and docs/people.md: starts the demonstration and visits its pages in a
// browser, in a light, a dark and a phone-sized window. `npm run screenshots -- DIR` takes every page, into DIR instead
// of docs/images.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Locator, Page } from "playwright-core";
import { launchBrowser, visit } from "../harness/browser/browser.ts";
import { startServer } from "../harness/processes/server.ts";
import { runScript } from "./script.ts";

const DOCS = fileURLToPath(new URL("../docs/images/", import.meta.url));

const LOOKS = [
  ["light", { colorScheme: "light", viewport: { width: 1280, height: 800 } }],
  ["dark", { colorScheme: "dark", viewport: { width: 1280, height: 800 } }],
  ["phone", { colorScheme: "light", viewport: { width: 375, height: 760 } }],
] as const;

/** Page → its heading. */
const SHOWN = { home: "Home", keys: "Keys", usage: "Usage", fleet: "Fleet" };
/** In a light window only. */
const LIGHT = { key: /./, audit: "Audit", portal: "Portal" };
const OTHERS = {
  leaks: "Leaks",
  tenants: "Tenants",
  projects: "Projects",
  plans: "Plans",
  developers: "Developers",
  members: "Members",
  settings: "Settings",
  instance: "Instance",
};

/** Pages behind links in mail. They use their token only when a button is pressed. */
const LINKED = ["verify", "reset", "invite"];

/** Of the window around a dialog. */
const MARGIN = 24;

type Demo = { url: string; owner_email: string; owner_password: string };

const button = (page: Page, name: string): Locator => page.getByRole("button", { name, exact: true }).last();

/** The oldest key listed with traffic, of the project that has nodes. */
const usedKey = (page: Page): Locator =>
  page
    .getByRole("row")
    .filter({ hasText: "Orders API" })
    .filter({ hasText: "Active" })
    .filter({ has: page.locator('[data-label="Last used"] time') })
    .last()
    .getByRole("link")
    .first();

async function open(page: Page, url: string, title: string | RegExp, env = "live"): Promise<void> {
  await page.goto(url.replace("{env}", env));
  await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
  await loaded(page);
}

async function loaded(page: Page): Promise<void> {
  const skeletons = page.locator(".skeleton");
  while ((await skeletons.count()) > 0) await skeletons.first().waitFor({ state: "detached" });
  await page.waitForLoadState("networkidle");
}

/** What is to be done on a page before its picture is taken. */
const STEPS: Record<string, (page: Page) => Promise<unknown>> = {
  audit: async (page) => {
    await button(page, "Verify in this browser").click();
    await page.getByText(/^Verified: .* in this browser/).waitFor();
  },
  home: (page) => page.getByText(/requests, .* denied/).waitFor(), // the demo's usage is added in the background
  portal: (page) => page.locator("keyrack-portal").first().waitFor(),
};

async function takePage(page: Page, base: string, name: string, title: string | RegExp): Promise<void> {
  if (name === "key") {
    await open(page, `${base}/keys?limit=200`, "Keys");
    await usedKey(page).click();
    await page.getByRole("heading", { name: "Changes" }).waitFor();
    await loaded(page);
  } else await open(page, `${base}/${name}`, title);
  await STEPS[name]?.(page);
  await page.mouse.move(0, 0); // what is below the pointer looks different
}

async function logIn(page: Page, { url, owner_email, owner_password }: Demo): Promise<void> {
  await page.goto(`${url}/#/login`);
  await page.getByLabel("Email", { exact: true }).fill(owner_email);
  await page.getByLabel("Password", { exact: true }).fill(owner_password);
  await button(page, "Log in").click();
  await page.getByRole("heading", { level: 1 }).waitFor();
}

async function takeDialog(page: Page, name: string, path: string): Promise<void> {
  const dialog = page.getByRole("dialog", { name });
  const box = await dialog.boundingBox();
  if (!box) throw new Error(`no dialog ${name}`);
  const { x, y, width, height } = box;
  const clip = { x: x - MARGIN, y: y - MARGIN, width: width + 2 * MARGIN, height: height + 2 * MARGIN };
  await page.screenshot({ path, clip, animations: "disabled" });
}

/** Dialogs of a new key in test and of a revoked one in live. They change the data, so pages are taken before. */
async function takeDialogs(page: Page, base: string, path: (name: string) => string): Promise<void> {
  await open(page, `${base}/keys`, "Keys", "test");
  await button(page, "Create key").click();
  for (const field of ["Project", "Tenant"]) {
    await page.getByRole("combobox", { name: field, exact: true }).click();
    await page.locator(".suggestions li").first().click();
  }
  await page.getByLabel(/^Name/).fill("Staging");
  await button(page, "Create key").click();
  await page.getByRole("dialog", { name: "Save this key now" }).waitFor();
  await takeDialog(page, "Save this key now", path("new-key"));
  await page.getByLabel("I have stored it").check();
  await button(page, "Done").click();
  await open(page, `${base}/keys?limit=200`, "Keys");
  await usedKey(page).click();
  await button(page, "Revoke").click();
  await button(page, "Revoke key").click();
  await page.getByRole("dialog", { name: "Key revoked" }).getByText("2 of 3 nodes have the change.").waitFor();
  await takeDialog(page, "Key revoked", path("revoked"));
}

async function takePictures(demo: Demo, folder: string, takesAll: boolean): Promise<void> {
  const base = `${demo.url}/#/w/demo/{env}`;
  const browser = await launchBrowser();
  const visits: (readonly [look: string, page: Page])[] = [];
  for (const [look, options] of LOOKS) {
    const { page } = await visit(browser, demo.url, options);
    visits.push([look, page]);
    for (const name of LINKED) {
      await page.goto(`${demo.url}/#/${name}?token=example`);
      await page.locator("form").waitFor();
      await loaded(page);
      await page.screenshot({ path: `${folder}/pages-${name}-${look}.png`, animations: "disabled" });
    }
    await logIn(page, demo);
    const takesMore = look === "light" || takesAll;
    for (const [name, title] of Object.entries({ ...SHOWN, ...(takesMore && LIGHT), ...(takesAll && OTHERS) })) {
      await takePage(page, base, name, title);
      await page.screenshot({ path: `${folder}/dashboard-${name}-${look}.png`, animations: "disabled" });
    }
  }
  for (const [look, page] of visits)
    if (look !== "phone") await takeDialogs(page, base, (name) => `${folder}/dashboard-${name}-${look}.png`);
  await browser.close();
}

/**
 * The interface font of most systems has every weight; DejaVu Sans, what a bare Debian has, is wide and has two. Where
 * Inter is installed (fonts-inter), the pictures are set in it.
 */
const FONTS = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><include>/etc/fonts/fonts.conf</include>${["system-ui", "sans", "sans-serif"]
  .map(
    (family) => `<match target="pattern"><test name="family"><string>${family}</string></test>
<edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>`,
  )
  .join("")}</fontconfig>`;

/** The browser reads the variable at its start. */
function useInter(folder: string): void {
  const isThere = execFileSync("fc-list", ["Inter"], { encoding: "utf8" }).trim() !== "";
  if (!isThere) return console.warn("Inter is not installed: the pictures are set in the system's font.");
  const file = join(folder, "fonts.conf");
  writeFileSync(file, FONTS);
  process.env.FONTCONFIG_FILE = file;
}

await runScript(async () => {
  const [folder] = process.argv.slice(2);
  mkdirSync(folder ?? DOCS, { recursive: true });
  const fonts = mkdtempSync(join(tmpdir(), "keyrack-fonts-"));
  useInter(fonts);
  const server = await startServer(["--ephemeral", "--demo"]);
  try {
    await takePictures(server.ready as unknown as Demo, folder ? resolve(folder) : DOCS, folder !== undefined);
  } finally {
    await server.end("SIGTERM");
    rmSync(fonts, { recursive: true });
  }
});
