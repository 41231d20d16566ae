// The API description is a golden file: a change of the contract is visible in review.
// After an intended change: npm run docs
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { beforeAll, describe, expect, it } from "vitest";
import type { z } from "zod";
import { firstDifference } from "../../harness/texts.ts";
import { openApiDocument } from "../../src/http/openapi.ts";
import { endpoints } from "../../src/api/index.ts";
import { EXAMPLES } from "../../tools/api-examples.ts";
import { apiPage } from "../../tools/api-page.ts";
import { configurePage } from "../../tools/docs.ts";
import { jobsPage } from "../../tools/jobs-page.ts";
import { limitsPage } from "../../tools/limits-page.ts";

let document: Record<string, unknown>;
let text: string;
beforeAll(async () => {
  document = await openApiDocument(endpoints);
  text = JSON.stringify(document);
});

const read = (path: string): string => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");

describe("generated documents are fresh (npm run docs writes them)", () => {
  it("test/golden/openapi.json", () => {
    expect(firstDifference(`${JSON.stringify(document, null, 2)}\n`, read("test/golden/openapi.json"))).toBeNull();
  });

  it("docs/api.md", () => {
    expect(firstDifference(apiPage(), read("docs/api.md"))).toBeNull();
  });

  it("docs/jobs.md", () => {
    expect(firstDifference(jobsPage(), read("docs/jobs.md"))).toBeNull();
  });

  it("docs/api.md, with example responses that match their schemas", () => {
    for (const [name, example] of Object.entries(EXAMPLES)) {
      const output = endpoints.find((endpoint) => endpoint.name === name)?.output as z.ZodType;
      expect(output.safeParse(example).error?.issues, name).toBeUndefined();
    }
  });

  it("docs/limits.md", () => {
    expect(firstDifference(limitsPage(), read("docs/limits.md"))).toBeNull();
  });

  it("docs/configure.md", () => {
    expect(firstDifference(configurePage(), read("docs/configure.md"))).toBeNull();
  });
});

describe("the OpenAPI document", () => {
  it("is built beside other work, which waits for one operation at most", async () => {
    let turns = 0;
    const count = (): void => {
      turns += 1;
      next = setImmediate(count);
    };
    let next = setImmediate(count);
    await openApiDocument(endpoints);
    clearImmediate(next);
    expect(turns).toBeGreaterThanOrEqual(endpoints.length);
  });

  it("describes exactly the declared routes", () => {
    const { paths } = document as { paths: Record<string, Record<string, unknown>> };
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(described.toSorted()).toEqual(endpoints.map(({ name }) => name).toSorted());
  });

  it("describes every field of the requests that nodes and backends in other languages write by hand", () => {
    type Field = { description?: string; properties?: Record<string, Field>; items?: Field; anyOf?: Field[] };
    type Operation = { requestBody?: { content: Record<string, { schema: Field }> } };
    const { paths } = document as { paths: Record<string, Record<string, Operation>> };
    const byHand = /^POST \/v1\/(keys|keys\/lookup|bulk\/keys|embed_tokens|ingest\/.*|idempotency\/.*|ratelimit\/.*)$/;
    const missingIn = ({ properties = {}, items, anyOf = [] }: Field, at: string): string[] => [
      ...Object.entries(properties).flatMap(([name, field]) => [
        ...(field.description ? [] : [`${at}.${name}`]),
        ...missingIn(field, `${at}.${name}`),
      ]),
      ...[...anyOf, ...(items ? [items] : [])].flatMap((inner) => missingIn(inner, at)),
    ];
    const operations = Object.entries(paths).flatMap(([path, { post }]) =>
      post && byHand.test(`POST ${path}`) ? [[path, post] as const] : [],
    );
    expect(operations.length).toBeGreaterThanOrEqual(12);
    const missing = operations.flatMap(([path, { requestBody }]) =>
      Object.values(requestBody?.content ?? {}).flatMap(({ schema }) => missingIn(schema, path)),
    );
    expect(missing).toEqual([]);
  });

  it("has only references that resolve within the document", () => {
    const refs = [...text.matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref = ""]) => ref);
    expect(refs.length).toBeGreaterThan(0);
    for (const ref of new Set(refs)) {
      const found = ref
        .split("/")
        .slice(1)
        .reduce<unknown>((at, name) => (at as Record<string, unknown>)?.[name], document);
      expect(found, ref).toBeDefined();
    }
  });

  it("has no pattern with a lookaround or a back reference, which try a long text in quadratic time", () => {
    const patterns = [...text.matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(
      ([, each = ""]) => JSON.parse(each) as string,
    );
    expect(patterns.length).toBeGreaterThan(10);
    expect(patterns.filter((each) => /\(\?<?[=!]|\\[1-9k]/.test(each))).toEqual([]);
  });

  it("gives every operation its own id", () => {
    const ids = [...text.matchAll(/"operationId":"([^"]+)"/g)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("passes every rule of the linter, but for those that contradict this API", async () => {
    const config = await createConfig({
      extends: ["all"],
      rules: {
        // The error envelope and the paths are part of /v1, which only grows.
        "operation-4xx-problem-details-rfc7807": "off",
        "paths-kebab-case": "off",
        "path-segment-plural": "off",
        // Formats and patterns say more than hundreds of invented values.
        "scalar-property-missing-example": "off",
        // Minimum lengths are declared where they are checked: on input.
        "required-string-property-missing-min-length": "off",
        // The pages, their scripts and the checkpoint are not JSON.
        "response-mime-type": {
          severity: "error",
          allowedValues: [
            "application/json",
            "text/html",
            "text/javascript",
            "text/plain",
            "text/csv",
            "application/x-ndjson",
          ],
        },
      },
    });
    const found = await lintFromString({ source: text, config });
    expect(found.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`)).toEqual([]);
    const one = JSON.stringify(await openApiDocument(endpoints.slice(0, 1)));
    const without = await lintFromString({ source: one.replace('"servers"', '"x-servers"'), config });
    expect(without.map(({ ruleId }) => ruleId)).toContain("no-empty-servers");
  });
});
