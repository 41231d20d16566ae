// A bar chart of requests per day, errors on top. Errors are hatched, not only red, and a table has the same figures.
import { layoutChart } from "../shared/chart.ts";
import { h, s } from "../shared/dom.ts";
import type { Messages } from "./messages.ts";
import type { Day } from "./types.ts";

const HEIGHT = 132;
const LEFT = 44;
const TOP = 8;
const BOTTOM = 22;

function hatch(): SVGPatternElement {
  return s(
    "pattern",
    { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: 5, height: 5, class: "paper" }),
    s("line", { x1: 0, x2: 0, y1: 0, y2: 5, class: "stripe" }),
  );
}

/** Drawn for a width in pixels, so that text and hatching are not distorted. */
export function drawChart(days: readonly Day[], width: number, messages: Messages, label: string): SVGSVGElement {
  const area = { width, height: HEIGHT, left: LEFT, top: TOP, bottom: BOTTOM };
  const fine = days.map(({ requests, errors }) => Math.max(0, requests - errors));
  const faults = days.map(({ errors }) => errors);
  const { ticks, paths } = layoutChart([fine, faults], area);
  const chart = s("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
  chart.append(s("defs", {}, hatch()));
  for (const { value, y } of ticks) {
    chart.append(
      s("line", { class: "grid", x1: LEFT, x2: width, y1: y, y2: y }),
      s("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, messages.number(value, { notation: "compact" })),
    );
  }
  for (const [i, className] of ["bar", "fault"].entries())
    chart.append(s("path", { class: className, d: paths[i] ?? "" }));
  const first = days[0]?.day;
  const last = days.at(-1)?.day;
  if (first && last) {
    chart.append(
      s("text", { x: LEFT, y: HEIGHT - 4 }, messages.day(first)),
      s("text", { x: width, y: HEIGHT - 4, "text-anchor": "end" }, messages.day(last)),
    );
  }
  return chart;
}

export function legend(messages: Messages): HTMLElement {
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
    h("span", {}, swatch("bar"), messages.t("requests")),
    h("span", {}, swatch("fault"), messages.t("errors")),
  );
}

export function summarize(days: readonly Day[], messages: Messages): string {
  const requests = days.reduce((sum, day) => sum + day.requests, 0);
  const errors = days.reduce((sum, day) => sum + day.errors, 0);
  if (requests === 0) return messages.t("usageNone", { n: days.length });
  return messages.t("usageSum", {
    requests: messages.number(requests),
    errors: messages.number(errors),
    share: messages.number(errors / requests, { style: "percent", maximumFractionDigits: 1 }),
    n: days.length,
  });
}

export function usageTable(days: readonly Day[], messages: Messages): HTMLElement {
  const head = (["day", "requests", "errors"] as const).map((name) => h("th", { scope: "col" }, messages.t(name)));
  const rows = days
    .toReversed()
    .map(({ day, requests, errors }) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, messages.day(day, { dateStyle: "medium" })),
        h("td", {}, messages.number(requests)),
        h("td", {}, messages.number(errors)),
      ),
    );
  return h(
    "details",
    { class: "small" },
    h("summary", {}, messages.t("asTable")),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": messages.t("usage") },
      h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)),
    ),
  );
}
