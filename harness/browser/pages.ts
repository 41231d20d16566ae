// A person at the pages behind the links: everything the browser asked for and complained of is kept, and looked at when
// the visit ends.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { expect } from "vitest";
import { visit, type VisitOptions } from "./browser.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Only what is wrong is asked for: to list what is right as well takes longer than to find out. */
const RULES = {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  resultTypes: ["violations"],
};

export type Guest = AsyncDisposable & {
  page: Page;
  /** Opens a link as a mail program would. */
  open(link: string): Promise<void>;
  title(): Promise<string>;
  /** Waits for the page with this heading. */
  at(title: string | RegExp): Promise<void>;
  /** Everything but the last look: no violation, no token in an address, nothing kept in the browser. */
  expectClean(): Promise<void>;
};

export async function guest(browser: Browser, options: VisitOptions = {}): Promise<Guest> {
  const v = await visit(browser, "about:blank", options);
  const { page, context, complaints } = v;
  const asked: string[] = [];
  const secrets: string[] = [];
  context.on("request", (request) => {
    asked.push(
      request.url(),
      ...Object.entries(request.headers())
        .filter(([name]) => name === "referer")
        .flat(),
    );
  });
  await context.addInitScript(`
    window.violations = [];
    addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective + " " + event.blockedURI));
  `);
  const title = (): Promise<string> => page.getByRole("heading", { level: 1 }).innerText();
  return {
    page,
    title,
    async open(link) {
      secrets.push(new URLSearchParams(link.split("?")[1]).get("token") ?? "");
      await page.goto(link);
    },
    at: (wanted) => page.getByRole("heading", { level: 1, name: wanted }).waitFor(),
    async expectClean() {
      expect(await page.evaluate("violations")).toEqual([]);
      expect(complaints.filter((text) => !/^Failed to load resource: .* status of 4/.test(text))).toEqual([]);
      const shown = await page.evaluate<string>(
        "location.href + document.documentElement.outerHTML + document.referrer + JSON.stringify(history.state)",
      );
      const kept = await page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]");
      expect([...(kept as unknown[]), ...(await context.cookies())]).toEqual(["", 0, 0]);
      for (const secret of secrets.filter((text) => text !== "")) {
        expect(shown).not.toContain(secret);
        // The browser's own note of a navigation has the fragment; what goes out over the wire never does.
        expect(asked.map((url) => url.split("#")[0]).filter((url) => url?.includes(secret))).toEqual([]);
      }
    },
    [Symbol.asyncDispose]: () => v[Symbol.asyncDispose](),
  };
}

/** The page holds against axe's rules and fits its window. */
export async function expectAccessible(page: Page): Promise<void> {
  // The page's policy refuses foreign scripts, so axe is put in by the debugger, not by the page.
  const session = await page.context().newCDPSession(page);
  const { result: has } = await session.send("Runtime.evaluate", { expression: "typeof axe" });
  if (has.value === "undefined") await session.send("Runtime.evaluate", { expression: AXE });
  const { result } = await session.send("Runtime.evaluate", {
    expression: `axe.run(${JSON.stringify(RULES)}).then((found) => JSON.stringify(found.violations.map(({ id, nodes }) => [id, ...nodes.map((node) => node.html + " " + node.failureSummary)])))`,
    awaitPromise: true,
    returnByValue: true,
  });
  await session.detach();
  expect(JSON.parse(result.value as string)).toEqual([]);
  expect(await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")).toBe(0);
}
