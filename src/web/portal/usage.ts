// The usage panel below a key: 30 or 90 days, a chart, its sum in words and as a table.
import { ApiError, type Api } from "./api.ts";
import { drawChart, legend, summarise, tableOf } from "./chart.ts";
import { h } from "../shared/dom.ts";
import type { Words } from "./messages.ts";
import type { Day } from "./types.ts";

const SPANS = [30, 90] as const;

export class UsagePanel {
  readonly id: string;
  readonly node: HTMLElement;
  readonly #api: Api;
  readonly #words: Words;
  readonly #explain: (error: ApiError) => string;
  readonly #body: HTMLElement;
  readonly #spans: HTMLButtonElement[];
  #days: Day[] = [];
  #watch: ResizeObserver | undefined;

  constructor(id: string, name: string, api: Api, words: Words, explain: (error: ApiError) => string) {
    this.id = id;
    this.#api = api;
    this.#words = words;
    this.#explain = explain;
    this.#body = h("div", { "aria-live": "polite" });
    this.#spans = SPANS.map((n) =>
      h(
        "button",
        { type: "button", "aria-pressed": "false", onclick: () => void this.load(n) },
        words.t("days", { n }),
      ),
    );
    const label = words.t("ofKey", { action: words.t("usage"), name });
    this.node = h(
      "div",
      { class: "usage", part: "usage", role: "group", "aria-label": label, id: `usage-${id}` },
      h("div", { class: "line" }, h("div", { class: "actions" }, ...this.#spans), legend(words)),
      this.#body,
    );
  }

  async load(span: number = SPANS[0]): Promise<void> {
    for (const [i, button] of this.#spans.entries()) button.setAttribute("aria-pressed", String(SPANS[i] === span));
    if (this.#days.length === 0) this.#body.replaceChildren(this.#words.t("working"));
    try {
      const { data } = await this.#api.get<{ data: Day[] }>(`keys/${this.id}/usage?days=${span}`);
      this.#days = data;
      this.#show();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#body.replaceChildren(h("p", { role: "alert" }, this.#explain(error)));
    }
  }

  close(): void {
    this.#watch?.disconnect();
    this.node.remove();
  }

  #show(): void {
    const said = summarise(this.#days, this.#words);
    const place = h("div");
    this.#body.replaceChildren(place, h("p", { class: "small" }, said), tableOf(this.#days, this.#words));
    this.#watch?.disconnect();
    let drawn = 0;
    this.#watch = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry?.contentRect.width ?? 0);
      if (width < 1 || width === drawn) return;
      drawn = width;
      place.replaceChildren(drawChart(this.#days, width, this.#words, said));
    });
    this.#watch.observe(place);
  }
}
