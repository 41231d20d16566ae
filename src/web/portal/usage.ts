// The usage panel of a key: a chart over 30 or 90 days, its totals and a table.
import { h } from "../shared/dom.ts";
import { ApiError, type Api } from "./api.ts";
import { drawChart, legend, summarize, usageTable } from "./chart.ts";
import type { Messages } from "./messages.ts";
import type { Day } from "./types.ts";

const SPANS = [30, 90] as const;

export class UsagePanel {
  readonly id: string;
  readonly node: HTMLElement;
  readonly #api: Api;
  readonly #messages: Messages;
  readonly #explain: (error: ApiError) => string;
  readonly #body: HTMLElement;
  readonly #spans: HTMLButtonElement[];
  #days: Day[] = [];
  /** Number of the latest load; the response to an older one is discarded. */
  #loads = 0;
  #resizeObserver: ResizeObserver | undefined;

  constructor(id: string, name: string, api: Api, messages: Messages, explain: (error: ApiError) => string) {
    this.id = id;
    this.#api = api;
    this.#messages = messages;
    this.#explain = explain;
    this.#body = h("div", { "aria-live": "polite" });
    this.#spans = SPANS.map((n) =>
      h(
        "button",
        { type: "button", "aria-pressed": "false", onclick: () => void this.load(n) },
        messages.t("days", { n }),
      ),
    );
    const label = messages.t("ofKey", { action: messages.t("usage"), name });
    this.node = h(
      "div",
      { class: "usage", part: "usage", role: "group", "aria-label": label, id: `usage-${id}` },
      h("div", { class: "line" }, h("div", { class: "actions" }, ...this.#spans), legend(messages)),
      this.#body,
    );
  }

  async load(span: number = SPANS[0]): Promise<void> {
    const load = ++this.#loads;
    for (const [i, button] of this.#spans.entries()) button.setAttribute("aria-pressed", String(SPANS[i] === span));
    if (this.#days.length === 0) this.#body.replaceChildren(this.#messages.t("working"));
    try {
      const { data } = await this.#api.get<{ data: Day[] }>(`keys/${this.id}/usage?days=${span}`);
      if (load !== this.#loads) return;
      this.#days = data;
      this.#show();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (load !== this.#loads) return;
      this.#body.replaceChildren(h("p", { role: "alert" }, this.#explain(error)));
    }
  }

  close(): void {
    this.#resizeObserver?.disconnect();
    this.node.remove();
  }

  #show(): void {
    const summary = summarize(this.#days, this.#messages);
    this.#resizeObserver?.disconnect();
    // Axes without bars would look like a chart that failed.
    if (this.#days.every(({ requests }) => requests === 0))
      return this.#body.replaceChildren(h("p", { class: "small" }, summary));
    const chartArea = h("div");
    this.#body.replaceChildren(chartArea, h("p", { class: "small" }, summary), usageTable(this.#days, this.#messages));
    let drawnWidth = 0;
    this.#resizeObserver = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry?.contentRect.width ?? 0);
      if (width < 1 || width === drawnWidth) return;
      drawnWidth = width;
      chartArea.replaceChildren(drawChart(this.#days, width, this.#messages, summary));
    });
    this.#resizeObserver.observe(chartArea);
  }
}
