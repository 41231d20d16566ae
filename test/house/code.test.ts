// Rules about the text of the code: SQL only in the store, no HTTP in the domain, file headers, file sizes.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { endpoints } from "../../src/api/index.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const LINES_MAX = 301; // the last line ends with a newline

function* files(dir: string): Generator<string> {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) yield* files(path);
    else if (/\.tsx?$/.test(path)) yield path;
  }
}

const sources = [...files(join(root, "src"))].map((path) => ({
  path: relative(root, path),
  text: readFileSync(path, "utf8"),
}));
const folderOf = (path: string): string => path.split("/")[1] ?? "";

describe("source files of src", () => {
  it("contain SQL only in the store", () => {
    const sql = /(["'`])\s*(select|insert into|update|delete from|create table|alter table|drop)\s+[a-z_*("]+\s/i;
    const found = sources
      .filter(({ path, text }) => folderOf(path) !== "store" && sql.test(text))
      .map(({ path }) => path);
    expect(found).toEqual([]);
  });

  it("do not use HTTP in the domain, the store and the kernel", () => {
    const http = /from "node:https?"|from "h3"|\bstatusCode\b|\bwriteHead\b/;
    const found = sources.filter(
      ({ path, text }) => ["domain", "store", "kernel"].includes(folderOf(path)) && http.test(text),
    );
    expect(found.map(({ path }) => path)).toEqual([]);
  });

  it("leave RateLimit headers to the kernel, and headers of refusals to http", () => {
    const found = sources.filter(
      ({ path, text }) =>
        (/["`]ratelimit-policy["`]:|;[qr]=\$/.test(text) && path !== "src/kernel/ratelimit/headers.ts") ||
        (["domain", "store", "fairness", "ratelimit"].includes(folderOf(path)) &&
          /\bfail\([^;]*\bheaders\b/.test(text)),
    );
    expect(found.map(({ path }) => path)).toEqual([]);
  });

  it("charge shares and throttles in the pipeline and the domain, not in handlers", () => {
    const fairness = /\bownerOf\b|\bthrottles\.|\bnotModified\.|\bcharge\(/;
    const found = sources.filter(({ path, text }) => folderOf(path) === "api" && fairness.test(text));
    expect(found.map(({ path }) => path)).toEqual([]);
  });

  it("have no default export and no unsafe randomness", () => {
    const found = sources.filter(({ text }) => /^export default|Math\.random\(/m.test(text));
    expect(found.map(({ path }) => path)).toEqual([]);
  });

  it("begin with a comment on what they own", () => {
    const found = sources.filter(({ text }) => !/^(#!.*\n)?(\/\/|\/\*)/.test(text));
    expect(found.map(({ path }) => path)).toEqual([]);
  });

  it("take lengths of time and sizes from the kernel, except what browsers load", () => {
    const own = /\b(60_000|3_600_000|86_400_000)\b|\bconst (SECOND|MINUTE|HOUR|DAY)_MS\b|1024 \* 1024|\bconst MIB\b/;
    const kernel = /^src\/kernel\/(durations|sizes)\.ts$/;
    const found = sources.filter(({ path, text }) => folderOf(path) !== "web" && !kernel.test(path) && own.test(text));
    expect(found.map(({ path }) => path)).toEqual([]);
  });

  it("yield to the event loop in one way; the others only schedule a callback", () => {
    const scheduling = [
      "src/domain/policy/page-cache.ts",
      "src/fairness/per-turn.ts",
      "src/fairness/turns.ts",
      "src/ratelimit/redis/batch.ts",
      "src/ratelimit/redis/counter.ts",
      "src/store/sqlite/reader.ts",
    ];
    const found = sources.filter(({ text }) => text.includes("setImmediate")).map(({ path }) => path);
    expect(found.toSorted()).toEqual([...scheduling, "src/platform/event-loop.ts"].toSorted());
  });

  it("have at most 300 lines", () => {
    const long = sources.filter(({ text }) => text.split("\n").length > LINES_MAX).map(({ path }) => path);
    expect(long).toEqual([]);
  });

  it("have no comment line of more than 120 columns, as the formatter has it for code", () => {
    const tables = /^\s*\/\/ (\||  )/;
    const found = sources.flatMap(({ path, text }) =>
      text
        .split("\n")
        .filter((line) => line.length > 120 && /^\s*(\/\/|\/\*|\* )/.test(line) && !tables.test(line))
        .map((line) => `${path}: ${line}`),
    );
    expect(found).toEqual([]);
  });

  it("bind every raw value: nothing is interpolated into SQL", () => {
    const raw = /sql\.raw\(|sql\.lit\(/;
    const found = sources.filter(({ text }) => raw.test(text)).map(({ path }) => path);
    expect(found).toEqual([]);
  });
});

describe("every endpoint", () => {
  for (const endpoint of endpoints) {
    it(`${endpoint.name} has a summary, and audit actions if it changes anything`, () => {
      expect(endpoint.summary).toMatch(/^[A-Z].*\.$/);
      const changes = endpoint.method !== "GET";
      if (!changes) expect(endpoint.emits).toEqual([]);
      const unaudited =
        /^\/v1\/(embed_tokens$|keys\/lookup$|ingest|ratelimit|idempotency|auth\/(email_verifications|password_resets|sessions\/current\/workspace)$)/.test(
          endpoint.path,
        );
      if (changes && !unaudited) expect(endpoint.emits.length, "emits").toBeGreaterThan(0);
    });
  }
});
