// Metrics exposition: the Prometheus text format 0.0.4, and OpenMetrics 1.0, which names counters differently in their
// header and ends with a marker line. Histograms count into typed arrays: observing allocates nothing.

type Labels = Readonly<Record<string, string>>;
export type Sample = { readonly suffix?: string; readonly labels?: Labels; readonly value: number };
export type Family = {
  /** Without `_total`, which belongs to a counter's samples. */
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly samples: readonly Sample[];
};

export type Format = "text" | "openmetrics";

export const CONTENT_TYPES: Record<Format, string> = {
  text: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

export function counter(name: string, help: string, samples: readonly Sample[] | number): Family {
  return { name, type: "counter", help, samples: toSamples(samples) };
}

export function gauge(name: string, help: string, samples: readonly Sample[] | number): Family {
  return { name, type: "gauge", help, samples: toSamples(samples) };
}

function toSamples(samples: readonly Sample[] | number): readonly Sample[] {
  return typeof samples === "number" ? [{ value: samples }] : samples;
}

export class Histogram {
  readonly bounds: readonly number[];
  /** One count per bound, and one for values above the last. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds, counts } = this;
    let i = 0;
    while (i < bounds.length && value > (bounds[i] as number)) i++;
    counts[i] = (counts[i] as number) + 1;
    this.sum += value;
  }

  get count(): number {
    return this.counts.reduce((all, n) => all + n, 0);
  }

  samples(labels: Labels = {}): Sample[] {
    let below = 0;
    const buckets = [...this.bounds, Number.POSITIVE_INFINITY].map((bound, i) => {
      below += this.counts[i] ?? 0;
      return { suffix: "_bucket", labels: { ...labels, le: formatNumber(bound) }, value: below };
    });
    return [...buckets, { suffix: "_sum", labels, value: this.sum }, { suffix: "_count", labels, value: below }];
  }
}

export function formatMetrics(families: readonly Family[], format: Format): string {
  const lines: string[] = [];
  for (const { name, type, help, samples } of families) {
    const ending = type === "counter" ? "_total" : "";
    const header = format === "text" ? name + ending : name;
    lines.push(`# HELP ${header} ${help}`, `# TYPE ${header} ${type}`);
    for (const { suffix = ending, labels, value } of samples)
      lines.push(`${name}${suffix}${formatLabels(labels)} ${formatNumber(value)}`);
  }
  if (format === "openmetrics") lines.push("# EOF");
  return `${lines.join("\n")}\n`;
}

function formatLabels(labels: Labels = {}): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escapeLabel(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}

function formatNumber(value: number): string {
  return value === Number.POSITIVE_INFINITY ? "+Inf" : String(value);
}
