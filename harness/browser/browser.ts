// Debian's chromium driven by playwright-core. Without it, browser tests are skipped with a warning, or fail
// when KEYRACK_TEST_REQUIRE names chromium. Where its headless shell is installed too, that is used: the same engine
// without the browser's own windows and services, which cost more CPU time than the pages under test.
import { execFileSync } from "node:child_process";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { skipOrFail } from "../processes/tools.ts";
import { DEADLINE_MS } from "../waiting.ts";

const NAMES = ["chromium-headless-shell", "chromium", "chromium-browser"];

function findChromium(): string | null {
  try {
    const script = NAMES.map((name) => `command -v ${name}`).join(" || ");
    return execFileSync("sh", ["-c", script], { encoding: "utf8" }).trim();
  } catch {
    return null;
  }
}

const executablePath: string | null = findChromium();

/** For `describe.runIf(hasBrowser)`. */
export const hasBrowser: boolean = available();

function available(): boolean {
  if (executablePath) return true;
  skipOrFail("chromium", "pages in a browser");
  return false;
}

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export function launchBrowser(): Promise<Browser> {
  if (!executablePath) throw new Error("no chromium");
  return chromium.launch({ executablePath, args: FLAGS });
}

let shared: Browser | undefined;

/**
 * The browser of this test process, launched by the first file that needs one: every test has a context of its own, and
 * a launch takes more CPU time than most tests. It ends with the process; after a crash the next file launches another.
 * Its files are in the run's folder, because the file's own must be empty at its end (harness/setup/leftovers.ts).
 */
export async function sharedBrowser(): Promise<Browser> {
  const { TMPDIR: own, KEYRACK_TEST_RUN: run = own } = process.env;
  process.env.TMPDIR = run;
  try {
    return shared?.isConnected() ? shared : (shared = await launchBrowser());
  } finally {
    process.env.TMPDIR = own;
  }
}

type Visit = AsyncDisposable & {
  page: Page;
  context: BrowserContext;
  /** Console errors and uncaught errors of its pages; content blocked by the CSP is among them. */
  errors: string[];
};

export type VisitOptions = Parameters<Browser["newContext"]>[0];

/** A fresh context with one page, closed by `await using`. */
export async function visit(browser: Browser, url: string, options: VisitOptions = {}): Promise<Visit> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const errors: string[] = [];
  context.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  context.on("weberror", (error) => errors.push(String(error.error())));
  page.setDefaultTimeout(DEADLINE_MS);
  if (url !== "about:blank") await page.goto(url);
  return { page, context, errors, [Symbol.asyncDispose]: () => context.close() };
}
