// Counts requests by endpoint and status, and how long they took. On the hot path: one lookup, two additions, no
// allocation. What never reached an endpoint (no such route, refused by the parser) is not here.
import { counter, Histogram, type Family, type Sample } from "../kernel/exposition.ts";
import type { Endpoint } from "./endpoint.ts";

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30];
const STATUS_MIN = 100;
const CLASSES = ["1xx", "2xx", "3xx", "4xx", "5xx"] as const;

class Route {
  readonly labels: { method: string; route: string };
  readonly statuses = new Float64Array(500);
  readonly seconds = CLASSES.map(() => new Histogram(SECONDS));

  constructor({ method, path }: Endpoint) {
    this.labels = { method, route: path };
  }
}

export class Meter {
  readonly #routes: ReadonlyMap<Endpoint, Route>;

  constructor(endpoints: readonly Endpoint[]) {
    this.#routes = new Map(endpoints.map((endpoint) => [endpoint, new Route(endpoint)]));
  }

  /** `began` is what performance.now() said when the request came in. */
  count(endpoint: Endpoint, status: number, began: number): void {
    const route = this.#routes.get(endpoint);
    if (!route) return;
    const at = status - STATUS_MIN;
    route.statuses[at] = (route.statuses[at] as number) + 1;
    route.seconds[Math.trunc(at / 100)]?.observe((performance.now() - began) / 1_000);
  }

  families(): Family[] {
    const requests: Sample[] = [];
    const seconds: Sample[] = [];
    for (const route of this.#routes.values()) {
      for (const [i, value] of route.statuses.entries()) {
        if (value > 0) requests.push({ labels: { ...route.labels, status: String(i + STATUS_MIN) }, value });
      }
      for (const [i, histogram] of route.seconds.entries()) {
        if (histogram.count > 0) seconds.push(...histogram.samples({ ...route.labels, status: CLASSES[i] ?? "" }));
      }
    }
    return [
      counter("keyrack_http_requests", "Requests answered, by endpoint and status.", requests),
      {
        name: "keyrack_http_request_duration_seconds",
        type: "histogram",
        help: "From the request's head to its answer; long polls included.",
        samples: seconds,
      },
    ];
  }
}
