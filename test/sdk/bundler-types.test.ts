// The types of @keyrack/sdk in an app that a bundler builds. package.test.ts has those of Node's own resolution.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeTypedApp, typedSources, typeErrors } from "../../harness/sdk/typed-app.ts";

describe("the package", () => {
  let folder = "";
  let app = "";
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "keyrack-sdk-"));
    ({ app } = makeTypedApp(folder));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  // One format at a time: an app compiles against one of them.
  it.each(["mts", "cts"])("type-checks with moduleResolution bundler: %s", async (format) => {
    const resolution = ["--skipLibCheck", "--module", "preserve", "--moduleResolution", "bundler"];
    expect(await typeErrors(app, resolution, typedSources(format))).toBe("");
  });
});
