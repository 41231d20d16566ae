// The dashboard in a browser: the login page beside a page with one heading and one script, and the list of keys of a
// large workspace beside a small one, both with a processor slowed down four times; and the audit log verified in the
// browser beside the command line.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { launchBrowser } from "../harness/browser/browser.ts";
import { BIN, startServer } from "../harness/processes/server.ts";
import { interleave, startPeer, type Row } from "./report.ts";

const BLANK = new URL("./servers/blank.ts", import.meta.url).pathname;
const ROUNDS = 7;
const SLOWDOWN = 4;
const LARGE = { keys: 100_000, tenants: 10_000 };
const SMALL = { keys: 50, tenants: 10 };
const ROWS_MAX = 200;
const PAGES_TURNED = 20;
const HEAP_GROWTH_MAX_MB = 30;

type Demo = { url: string; owner_email: string; owner_password: string; secret_key: string };
type Running = Demo & { end(): Promise<unknown> };

async function startDemo({ keys, tenants }: typeof LARGE): Promise<Running> {
  const args = ["--ephemeral", "--demo", "--demo-keys", String(keys), "--demo-tenants", String(tenants)];
  const server = await startServer(args);
  return { ...(server.ready as unknown as Demo), end: () => server.end("SIGTERM") };
}

async function newPage(browser: Browser): Promise<Page> {
  const page = await browser.newPage();
  await slowDown(page, SLOWDOWN);
  return page;
}

async function slowDown(page: Page, rate: number): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate });
}

/** Milliseconds from the start of the navigation until the heading is there, with an empty cache. */
async function timeToHeading(browser: Browser, url: string): Promise<number> {
  const page = await newPage(browser);
  await page.goto(url);
  await page.getByRole("heading", { level: 1 }).waitFor();
  const ms = await page.evaluate<number>("performance.now()");
  await page.close();
  return ms;
}

async function logIn(browser: Browser, { url, owner_email, owner_password }: Demo): Promise<Page> {
  const page = await newPage(browser);
  await page.goto(`${url}/#/login`);
  await page.getByLabel("Email", { exact: true }).fill(owner_email);
  await page.getByLabel("Password", { exact: true }).fill(owner_password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  return page;
}

const FIRST_ROW = "tbody tr a";

/** From Home to the first row of the list. */
async function timeToKeys(page: Page, url: string): Promise<number> {
  await page.goto(`${url}/#/w/demo/live/home`);
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  const start = performance.now();
  await page.goto(`${url}/#/w/demo/live/keys`);
  await page.locator(FIRST_ROW).first().waitFor();
  return performance.now() - start;
}

/** Megabytes that the page's script holds. */
async function heapOf(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  return usedSize / 1024 ** 2;
}

/** A text that the name of some, but not of every key of the demonstration begins with. */
const SEARCHED = "Webhooks";

/** Searches the large list. Neither a request nor the page has more than 200 rows. */
async function searchKeys(page: Page, url: string): Promise<void> {
  const limits: number[] = [];
  page.on("request", (request) => limits.push(Number(new URL(request.url()).searchParams.get("limit"))));
  await page.goto(`${url}/#/w/demo/live/keys`);
  await page.getByLabel("Search keys").fill(SEARCHED);
  await page.locator("tbody th").filter({ hasNotText: SEARCHED }).first().waitFor({ state: "detached" });
  await page.locator("tbody th", { hasText: SEARCHED }).first().waitFor();
  page.removeAllListeners("request");
  if (Math.max(...limits) > ROWS_MAX) throw new Error(`a request has ${Math.max(...limits)} rows`);
  await page.goto(`${url}/#/w/demo/live/keys`);
  await page.locator(FIRST_ROW).first().waitFor();
}

/** Turns pages of the large list forward and back. Returns by how many megabytes the page has grown. */
async function turnPages(page: Page): Promise<number> {
  const before = await heapOf(page);
  for (const name of ["Next page", "Previous page"])
    for (let i = 0; i < PAGES_TURNED; i++) {
      const first = await page.locator(FIRST_ROW).first().getAttribute("href");
      await page.getByRole("button", { name }).click();
      // A function in a text would be refused by the page's policy when it is polled.
      await page.locator(`tbody tr:first-child th a[href*="/keys/"]:not([href="${first}"])`).waitFor();
    }
  const rows = await page.locator("tbody tr").count();
  if (rows > ROWS_MAX) throw new Error(`the page holds ${rows} rows`);
  return Math.max(0, (await heapOf(page)) - before);
}

/** Rows a second, verified on the page and by the command line from a file. */
async function verification(page: Page, demo: Demo): Promise<{ ours: number; peer: number }> {
  const headers = { authorization: `Bearer ${demo.secret_key}` };
  const dir = mkdtempSync(join(tmpdir(), "keyrack-bench-"));
  try {
    const text = await (await fetch(`${demo.url}/v1/audit_logs/export`, { headers })).text();
    const rows = text.trimEnd().split("\n").length;
    const file = join(dir, "audit.ndjson");
    writeFileSync(file, text);
    const start = performance.now();
    execFileSync(BIN, ["audit", "verify", "--file", file], { stdio: "ignore" });
    const peer = rows / ((performance.now() - start) / 1_000);
    await slowDown(page, 1);
    await page.goto(`${demo.url}/#/w/demo/live/audit`);
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    const begun = performance.now();
    await page.getByRole("button", { name: "Verify in this browser", exact: true }).click();
    await page.getByText(/^Verified: /).waitFor({ timeout: 120_000 });
    return { ours: rows / ((performance.now() - begun) / 1_000), peer };
  } finally {
    rmSync(dir, { recursive: true });
  }
}

export async function dashboard(): Promise<Row[]> {
  const [browser, large, small, blank] = await Promise.all([
    launchBrowser(),
    startDemo(LARGE),
    startDemo(SMALL),
    startPeer(BLANK),
  ]);
  try {
    const login = await interleave(ROUNDS, {
      ours: () => timeToHeading(browser, `${small.url}/#/login`),
      peer: () => timeToHeading(browser, blank.url),
    });
    const [big, little] = [await logIn(browser, large), await logIn(browser, small)];
    const keys = await interleave(ROUNDS, {
      ours: () => timeToKeys(big, large.url),
      peer: () => timeToKeys(little, small.url),
    });
    await searchKeys(big, large.url);
    const heap = { ours: await turnPages(big), peer: HEAP_GROWTH_MAX_MB };
    const verified = await verification(big, large);
    const ratio = (pair: { ours: number; peer: number }): number => pair.ours / pair.peer;
    return [
      { name: "dashboard/login", ...login, ratio: ratio(login), target: "<= 2.0", unit: "ms" },
      { name: "dashboard/keys", ...keys, ratio: ratio(keys), target: "<= 1.5", unit: "ms" },
      { name: "dashboard/heap", ...heap, ratio: ratio(heap), target: "<= 1.0", unit: "MB" },
      { name: "dashboard/verify", ...verified, ratio: ratio(verified), target: ">= 0.2", unit: "rows/s" },
    ];
  } finally {
    await browser.close();
    await Promise.all([large.end(), small.end(), blank.end()]);
  }
}
