// Preloaded into a server under measurement (node --import): where the time of labelled requests goes. A client sends
// `bench: LABEL MS` with the time on the clock that all processes of a machine share. At its end the server writes one
// entry per such request to KEYRACK_BENCH_INSIDE.
import { openSync, readSync, writeFileSync } from "node:fs";
import { Server, ServerResponse } from "node:http";
import { PerformanceObserver } from "node:perf_hooks";
import { isMainThread } from "node:worker_threads";

const MARKS = 1 << 15;
const now = () => Number(process.hrtime.bigint()) / 1e6;

/** How long this thread was ready to run and did not, in ms: others had the cores. */
function descheduledReader() {
  const file = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
  const buffer = Buffer.alloc(80);
  return () => Number(buffer.latin1Slice(0, readSync(file, buffer, 0, 80, 0)).split(" ")[1]) / 1e6;
}

function observe() {
  const descheduled = descheduledReader();
  const [times, values] = [new Float64Array(MARKS), new Float64Array(MARKS)];
  let marks = 0;
  const mark = () => {
    times[marks % MARKS] = now();
    values[marks % MARKS] = descheduled();
    return marks++ % MARKS;
  };
  /** The last mark before this time. */
  const before = (at) => {
    for (let i = marks - 1; i >= Math.max(0, marks - MARKS); i--) if (times[i % MARKS] <= at) return i % MARKS;
    return marks % MARKS;
  };
  const collections = [];
  const offset = now() - performance.now();
  const collect = (list) => {
    for (const { startTime, duration } of list) collections.push([startTime + offset, duration]);
  };
  const observer = new PerformanceObserver((list) => collect(list.getEntries()));
  observer.observe({ entryTypes: ["gc"] });
  const collecting = (from, to) =>
    collections.reduce((sum, [at, ms]) => sum + Math.max(0, Math.min(to, at + ms) - Math.max(from, at)), 0);

  const entries = [];
  const emit = Reflect.get(Server.prototype, "emit");
  Server.prototype.emit = function (event, req, ...more) {
    if (event === "request") {
      const at = mark();
      if (req.headers.bench) req.parsedAt = times[at];
    }
    return emit.call(this, event, req, ...more);
  };
  const end = Reflect.get(ServerResponse.prototype, "end");
  ServerResponse.prototype.end = function (...args) {
    const result = end.apply(this, args);
    const { parsedAt, headers } = this.req ?? {};
    if (parsedAt === undefined) return result;
    this.req.parsedAt = undefined;
    const [label, sent] = headers.bench.split(" ");
    const [from, at] = [Number(sent), mark()];
    const lost = Math.max(0, values[at] - values[before(from)]);
    entries.push({ label, from, to: times[at], parsedAt, lost });
    return result;
  };
  process.on("exit", () => {
    collect(observer.takeRecords());
    const seen = entries.map(({ label, from, to, parsedAt, lost }) => {
      return { label, all: to - from, unparsed: parsedAt - from, lost, collecting: collecting(from, to) };
    });
    writeFileSync(process.env.KEYRACK_BENCH_INSIDE, JSON.stringify(seen));
  });
}

if (isMainThread) observe();
