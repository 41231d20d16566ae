// What code for browsers must not do: parse markup, run text as code, log, reach other origins, or use storage and the
// network outside the files that own them.
import { describe, expect, it } from "vitest";
import { filesIn, readText } from "../../harness/repository.ts";
import { webSizes } from "../../tools/build-web.ts";

type Rule = {
  name: string;
  found: RegExp;
  /** Must be found in this line, or the rule checks nothing. */
  sample: string;
  /** Files and folders to which it applies. */
  within?: string;
  /** Files that own it. */
  except?: string[];
};

const DASHBOARD = "src/web/dashboard/";

const RULES: Rule[] = [
  { name: "innerHTML and outerHTML", found: /\b(inner|outer)HTML\b/, sample: "node.innerHTML = text;" },
  {
    name: "insertAdjacentHTML",
    found: /\binsertAdjacentHTML\b/,
    sample: 'node.insertAdjacentHTML("beforeend", text);',
  },
  {
    name: "dangerouslySetInnerHTML",
    found: /\bdangerouslySetInnerHTML\b/,
    sample: "<p dangerouslySetInnerHTML={x} />",
  },
  { name: "document.write", found: /\bdocument\.write/, sample: "document.writeln(text);" },
  { name: "eval", found: /\beval\(/, sample: "eval(text);" },
  { name: "new Function", found: /\bnew Function\b/, sample: "new Function(text);" },
  { name: "style attributes", found: /setAttribute\(\s*["'`]style/, sample: 'node.setAttribute("style", text);' },
  { name: "console", found: /\bconsole\./, sample: "console.log(1);" },
  {
    name: "addresses of other origins",
    found: /["'`](https?:)?\/\/(?!www\.w3\.org\/2000\/svg)[a-z0-9]/i,
    sample: 'fetch("https://example.com");',
  },
  { name: "cookies", found: /\bdocument\.cookie\b/, sample: "document.cookie = text;" },
  {
    name: "fetch outside api/call",
    found: /\bfetch\(|XMLHttpRequest|sendBeacon|new WebSocket|new EventSource/,
    sample: 'await fetch("./v1/keys");',
    within: DASHBOARD,
    except: ["src/web/dashboard/api/call.ts"],
  },
  {
    name: "storage outside api/store",
    found: /\b(localStorage|sessionStorage|indexedDB)\b/,
    sample: "localStorage.clear();",
    within: DASHBOARD,
    except: ["src/web/dashboard/api/web-storage.ts"],
  },
];

const FILES_MAX_LINES = 250;
const files = filesIn("src/web", ".ts", ".tsx");
const codeOf = (file: string): string => readText(file).replace(/^\s*(\/\/|\*|\/\*).*$/gm, "");

describe("code for browsers", () => {
  for (const { name, found, sample, within = "src/web/", except = [] } of RULES) {
    it(`uses no ${name}`, () => {
      expect(found.test(sample)).toBe(true);
      const checked = files.filter((file) => file.startsWith(within) && !except.includes(file));
      expect(checked.filter((file) => found.test(codeOf(file)))).toEqual([]);
    });
  }

  it(`has at most ${FILES_MAX_LINES} lines in a file of the dashboard`, () => {
    const own = filesIn(DASHBOARD, ".ts", ".tsx", ".css");
    const long = own.filter((file) => readText(file).split("\n").length - 1 > FILES_MAX_LINES);
    expect(own.some((file) => file.endsWith(".css"))).toBe(true);
    expect(long).toEqual([]);
  });

  it.each(webSizes())("is small enough, gzipped: $name, $bytes of at most $max bytes", ({ bytes, max }) => {
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThanOrEqual(max);
  });

  it("has a router of at most 60 lines", () => {
    expect(readText("src/web/dashboard/routes.ts").split("\n").length - 1).toBeLessThanOrEqual(60);
  });
});
