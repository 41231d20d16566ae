// Tests wait for events and conditions, never for a time, and with deadlines that a busy machine does not reach
// (harness/waiting.ts). No test is retried.
import { execFileSync, execSync, spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { withDeadline } from "../../harness/setup/sync-deadlines.ts";
import { commentsIn, filesIn, readText } from "../../harness/repository.ts";
import { TEST_DEADLINE_MS } from "../../harness/waiting.ts";

const self = "test/house/waiting.test.ts";
const files = ["test", "harness"].flatMap((folder) => filesIn(folder, ".ts")).filter((file) => file !== self);
const code = new Map(
  files.map((file) => [
    file,
    commentsIn(readText(file)).reduce((text, comment) => text.replace(comment, ""), readText(file)),
  ]),
);

/** The lines of every file that match, as "file: line". */
const linesWith = (pattern: RegExp): string[] =>
  files.flatMap((file) =>
    (code.get(file) ?? "")
      .split("\n")
      .filter((line) => pattern.test(line))
      .map((line) => `${file}: ${line.trim()}`),
  );

/** Files that use timers, and why no other event would do. */
const TIMERS: Record<string, string> = {
  "harness/waiting.ts": "polls a condition",
  "harness/api-client.ts": "ends a call that hangs",
  "harness/processes/newer-checkout.ts": "a migration that takes long enough to be killed in the middle",
  "harness/sdk/control-plane-feed.ts": "a long poll ends after the time that its client asked for",
  "test/ratelimit/fallback.test.ts": "stalls the process for longer than a timeout",
  "test/store/postgres/driver.test.ts": "a statement takes longer than the statement timeout",
};

/** Runs under an emulator too, and needs longer waits. */
const EMULATED = "test/cli/binary-smoke.test.ts";

describe("tests", () => {
  it("wait for no time", () => {
    // Not the methods of sockets and not the names of timers to fake.
    const timers =
      /(?<![.\w"])set(?:Timeout|Interval)\b|timers\/promises|\bpg_sleep\b|Atomics\.wait|AbortSignal\.timeout/;
    expect(files.filter((file) => timers.test(code.get(file) ?? "") && !(file in TIMERS))).toEqual([]);
  });

  it("use waits that have the shared deadline", () => {
    const own = linesWith(/\bvi\.waitFor\b|\bvi\.waitUntil\b/).filter((line) => !line.startsWith(EMULATED));
    expect(own).toEqual([]);
    expect(linesWith(/\.poll\(.*\btimeout:/)).toEqual([]);
  });

  it("set no deadline of their own, unless a longer one", () => {
    const own = linesWith(/\btimeout: *\d|^\s*\}, [\d_]{4,}\);$/).filter((line) => {
      const ms = Number(/\btimeout: *([\d_]+)|\}, ([\d_]+)\);$/.exec(line)?.slice(1).join("").replaceAll("_", ""));
      return ms !== 0 && ms < TEST_DEADLINE_MS;
    });
    expect(own).toEqual([]);
  });

  it("end a program that they run synchronously and that hangs", () => {
    const options = { timeout: 2 * TEST_DEADLINE_MS, killSignal: "SIGKILL" };
    expect(withDeadline(["sleep", ["1"]])).toEqual(["sleep", ["1"], options]);
    expect(withDeadline(["sleep", ["1"], { timeout: 1, cwd: "/" }])).toEqual([
      "sleep",
      ["1"],
      { ...options, timeout: 1, cwd: "/" },
    ]);
    expect(withDeadline(["sleep 1"])).toEqual(["sleep 1", options]);
    // What a test file imports is what the set-up has put in place.
    for (const run of [spawnSync, execFileSync, execSync]) expect(String(run)).toContain("withDeadline");
  });

  it("are not retried and not skipped for being unreliable", () => {
    expect(linesWith(/\bretry: *\d|\b(?:it|test|describe)\.(?:only|todo|fails)\b|\.skip\(\s*["'`]/)).toEqual([]);
  });

  it("start servers, databases and processes in hooks and tests, not while a file is loaded", () => {
    // What starts then stays behind when `-t` leaves out the tests whose hook would stop it.
    const starts =
      /^\S.*(?:\bawait (?!import\()|\b(?:start(?:[A-Z]\w*)?|test(?:Instance|Services)|(?:ready|fresh)Database|listen)\()/;
    const inFunction = /=>|\bfunction\b/;
    const loading = linesWith(starts).filter((line) => /\.test\.ts: /.test(line) && !inFunction.test(line));
    expect(loading).toEqual([]);
    expect(linesWith(/\bdescribe\b.*\basync\b/)).toEqual([]);
  });

  it("spend rate limits with a timeout that a busy machine does not reach", () => {
    // After 250 ms the library admits without counting. patientPorts() of harness/sdk/ports.ts waits longer.
    const impatient = files.filter((file) => {
      const text = code.get(file) ?? "";
      return /(?<![.\w])createKeyrack\(/.test(text) && /sdk\/adapters\//.test(text);
    });
    expect(impatient).toEqual([]);
  });

  it("read what a page shows until it is right", () => {
    // A click has returned before the page has changed. What must not appear is read once, behind another wait.
    const once = linesWith(
      /expect\(\[?await .*\.(?:getAttribute|textContent|innerText|inputValue|is[A-Z]\w+|count|all\w+)\(/,
    ).filter((line) => line.startsWith("test/browser/") && !/\.toBe\(0\)|\.not\./.test(line));
    expect(once).toEqual([]);
  });

  it("listen on ports that the system chooses", () => {
    expect(linesWith(/\blisten\((?:\{ port: )?[1-9]|"--port", *"[1-9]\d{0,3}"/)).toEqual([]);
  });
});
