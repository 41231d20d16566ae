// Requests and errors a day as bars. Errors are hatched, not only red, and the same figures stand in a table below.
import { h, s } from "../shared/dom.ts";
import type { Words } from "./messages.ts";
import type { Day } from "./types.ts";

const HEIGHT = 132;
const LEFT = 44;
const TOP = 8;
const FLOOR = HEIGHT - 22;

/** The smallest of 1, 2, 5 × 10^n that is no less: an axis people can read. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}

function hatch(): SVGPatternElement {
  return s(
    "pattern",
    { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: 5, height: 5, class: "paper" }),
    s("line", { x1: 0, x2: 0, y1: 0, y2: 5, class: "stripe" }),
  );
}

/** Drawn for a width in pixels, so that text and hatching keep their shape. */
export function drawChart(days: readonly Day[], width: number, words: Words, label: string): SVGSVGElement {
  const top = roundUp(Math.max(...days.map(({ requests }) => requests), 4));
  const y = (value: number): number => FLOOR - (value / top) * (FLOOR - TOP);
  const step = (width - LEFT) / days.length;
  const bar = Math.max(1, Math.min(step - (step > 6 ? 3 : 1), 22));
  const chart = s("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
  chart.append(s("defs", {}, hatch()));
  for (const value of [0, top / 2, top]) {
    chart.append(
      s("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
      s("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, words.number(value, { notation: "compact" })),
    );
  }
  for (const [i, { requests, errors }] of days.entries()) {
    const x = LEFT + i * step + (step - bar) / 2;
    const rect = (className: string, value: number): SVGRectElement =>
      s("rect", { class: className, x, width: bar, y: y(value), height: Math.max(0, FLOOR - y(value)) });
    if (requests > 0) chart.append(rect("bar", requests));
    if (errors > 0) chart.append(rect("fault", errors));
  }
  const first = days[0]?.day;
  const last = days.at(-1)?.day;
  if (first && last) {
    chart.append(
      s("text", { x: LEFT, y: HEIGHT - 4 }, words.day(first)),
      s("text", { x: width, y: HEIGHT - 4, "text-anchor": "end" }, words.day(last)),
    );
  }
  return chart;
}

export function legend(words: Words): HTMLElement {
  const swatch = (className: string): SVGSVGElement =>
    s(
      "svg",
      { class: "chart", viewBox: "0 0 12 12", "aria-hidden": "true" },
      s("defs", {}, hatch()),
      s("rect", { class: className, x: 0.5, y: 0.5, width: 11, height: 11 }),
    );
  return h(
    "div",
    { class: "legend small" },
    h("span", {}, swatch("bar"), words.t("requests")),
    h("span", {}, swatch("fault"), words.t("errors")),
  );
}

export function summarise(days: readonly Day[], words: Words): string {
  const requests = days.reduce((sum, day) => sum + day.requests, 0);
  const errors = days.reduce((sum, day) => sum + day.errors, 0);
  if (requests === 0) return words.t("usageNone", { n: days.length });
  return words.t("usageSum", {
    requests: words.number(requests),
    errors: words.number(errors),
    share: words.number(errors / requests, { style: "percent", maximumFractionDigits: 1 }),
    n: days.length,
  });
}

export function tableOf(days: readonly Day[], words: Words): HTMLElement {
  const head = (["day", "requests", "errors"] as const).map((name) => h("th", { scope: "col" }, words.t(name)));
  const rows = days
    .toReversed()
    .map(({ day, requests, errors }) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, words.day(day, { dateStyle: "medium" })),
        h("td", {}, words.number(requests)),
        h("td", {}, words.number(errors)),
      ),
    );
  return h(
    "details",
    { class: "small" },
    h("summary", {}, words.t("asTable")),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": words.t("usage") },
      h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)),
    ),
  );
}
