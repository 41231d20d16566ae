// A visitor of the dashboard: requests and errors of the browser are recorded and checked when the visit ends.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { expect } from "vitest";
import { visit, type VisitOptions } from "./browser.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Violations only: listing what passes takes axe longer than finding it. */
const ALL = {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  resultTypes: ["violations"],
};
/** More than half of the CPU time of a check. */
const COLOURS = ["color-contrast", "link-in-text-block"];
/** What the width changes: sizes, and what `display` hides, which may be the name of a control or the head of a table. */
const LAYOUT = [
  "target-size",
  "scrollable-region-focusable",
  "aria-hidden-focus",
  "empty-table-header",
  "heading-order",
  "region",
  "button-name",
  "link-name",
  "label",
  "select-name",
  "aria-input-field-name",
  "aria-toggle-field-name",
  "landmark-one-main",
  "page-has-heading-one",
  "skip-link",
];
/** Every rule but those about colours. */
export const STRUCTURE = { ...ALL, rules: Object.fromEntries(COLOURS.map((rule) => [rule, { enabled: false }])) };

/** Colours and widths in which the pages of the dashboard are checked. */
export const LOOKS = [
  ["light", { colorScheme: "light", viewport: { width: 1280, height: 800 } }],
  ["dark", { colorScheme: "dark", viewport: { width: 820, height: 800 } }],
  ["phone", { colorScheme: "light", viewport: { width: 320, height: 640 } }],
] as const;
export type Look = { colorScheme: "light" | "dark"; viewport: { width: number; height: number } };

export type Guest = AsyncDisposable & {
  page: Page;
  /** Opens a link as a mail program would. */
  open(link: string): Promise<void>;
  title(): Promise<string>;
  /** Waits for the page with this heading. */
  at(title: string | RegExp): Promise<void>;
  /** Checks the visit: no violation, no error, no foreign request, no cookie, no one-time token anywhere. */
  expectClean(): Promise<void>;
};

export async function guest(browser: Browser, options: VisitOptions = {}): Promise<Guest> {
  const v = await visit(browser, "about:blank", options);
  const { page, context, errors } = v;
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
      // A read that waited two seconds for a slot on a busy machine is refused with 503, and the page repeats it.
      expect(errors.filter((text) => !/^Failed to load resource: .* status of (4|503)/.test(text))).toEqual([]);
      const shown = await page.evaluate<string>(
        "location.href + document.documentElement.outerHTML + document.referrer + JSON.stringify(history.state)",
      );
      const stored = await page.evaluate<string>("JSON.stringify([localStorage, sessionStorage])");
      expect([await page.evaluate("document.cookie"), await context.cookies()]).toEqual(["", []]);
      const origins = new Set(asked.filter((url) => /^https?:/.test(url)).map((url) => new URL(url).host));
      expect([...origins].filter((host) => !/^(127\.0\.0\.1|localhost|\[::1\]):/.test(host))).toEqual([]);
      for (const secret of secrets.filter((text) => text !== "")) {
        expect([shown.includes(secret), stored.includes(secret)]).toEqual([false, false]);
        // The browser's navigation record has the fragment; the request on the wire never does.
        expect(asked.map((url) => url.split("#")[0]).filter((url) => url?.includes(secret))).toEqual([]);
      }
    },
    [Symbol.asyncDispose]: () => v[Symbol.asyncDispose](),
  };
}

/** Text that fades in has little contrast until it is there. Endless animations are not waited for. */
const SETTLED = `Promise.allSettled(document.getAnimations()
  .filter(({ effect }) => effect && effect.getComputedTiming().endTime !== Infinity)
  .map(({ finished }) => finished)).then(() => true)`;

/**
 * The page behind a modal dialog is checked without it, and the navigation, which is the same on most pages, once in a
 * document, width and colour scheme for each text that it has.
 */
const run = (rules: object): string => `((seen, look, rules) => {
  const roots = [document, ...[...document.querySelectorAll("keyrack-portal")].map((portal) => portal.shadowRoot)];
  const dialog = roots.flatMap((root) => [...root.querySelectorAll("dialog:modal")]).at(-1);
  const where = dialog ?? (seen.has(look) ? { exclude: [".side"] } : document);
  if (!dialog) seen.add(look);
  return axe.run(where, rules).then((found) => JSON.stringify(found.violations.map(({ id, nodes }) =>
    [id, ...nodes.map((node) => node.html + " " + node.failureSummary)])));
})(window.checked ??= new Set(), [innerWidth, matchMedia("(prefers-color-scheme: dark)").matches,
  document.querySelector(".side")?.innerText].join(), ${JSON.stringify(rules)})`;

/** Asserts that the page, or the dialog over it, passes axe's rules, and that the page fits its window. */
export async function expectAccessible(page: Page, rules: object = ALL): Promise<void> {
  await page.emulateMedia({ reducedMotion: "reduce" }); // a colour that is changing has the contrast of neither
  await page.evaluate(SETTLED);
  // The page's policy blocks foreign scripts, so axe is injected by the debugger.
  const session = await page.context().newCDPSession(page);
  const { result: has } = await session.send("Runtime.evaluate", { expression: "typeof axe" });
  if (has.value === "undefined") await session.send("Runtime.evaluate", { expression: AXE });
  const { result } = await session.send("Runtime.evaluate", {
    expression: run(rules),
    awaitPromise: true,
    returnByValue: true,
  });
  await session.detach();
  expect(JSON.parse(result.value as string)).toEqual([]);
  expect(await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")).toBe(0);
}

/** Gives an open page other colours and another width. */
export async function setLook(page: Page, { colorScheme, viewport }: Look): Promise<void> {
  await page.emulateMedia({ colorScheme });
  await page.setViewportSize(viewport);
  await page.evaluate("new Promise(requestAnimationFrame)"); // charts take the width of their window
}

/**
 * Asserts the same in each look; the page is in the last one afterwards. Every rule runs in the first; in the others
 * those about colours if these differ, and those that the width changes if it does. The frame has every rule in every
 * look (shell.test.ts).
 */
export async function expectAccessibleInLooks(page: Page, looks: readonly Look[] = LOOKS.map(([, look]) => look)) {
  const [first] = looks;
  for (const look of looks) {
    const runOnly = [
      ...(look.colorScheme === first?.colorScheme ? [] : COLOURS),
      ...(look.viewport.width === first?.viewport.width ? [] : LAYOUT),
    ];
    await setLook(page, look);
    await expectAccessible(page, look === first ? ALL : { ...ALL, runOnly });
  }
}
