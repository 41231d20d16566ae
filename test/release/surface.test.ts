// What a version promises: everything that users of an earlier release rely on by name is there, and nothing more is
// asked of them. Before 1.0 a minor release may remove a command, a flag or an export that the one before it announced:
// such a removal is left out here by name.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { RELEASE_FIXTURES, releases } from "../../harness/instances/release-data.ts";
import { filesIn, readText, root } from "../../harness/repository.ts";
import { breaksOf, surfaceOf, type Surface } from "../../tools/surface.ts";

const surfaceOfRelease = (version: string): Surface =>
  JSON.parse(readFileSync(join(RELEASE_FIXTURES, `surface-${version}.json`), "utf8")) as Surface;

describe("the surface", () => {
  it("is kept of every release", () => {
    const kept = readdirSync(RELEASE_FIXTURES).flatMap((name) => /^surface-(.+)\.json$/.exec(name)?.[1] ?? []);
    expect(kept).toEqual([...releases]);
  });

  it.each([...releases])("has everything of %s, and requires no more", (version) => {
    const older = surfaceOfRelease(version);
    expect(Object.keys(older.api).length).toBeGreaterThan(70);
    expect(Object.keys(older.commands).length).toBeGreaterThan(100);
    expect(Math.min(older.settings.length, older.metrics.length)).toBeGreaterThan(30);
    expect(older.sdk.index).toContain("createKeyrack");
    expect(Object.keys(older.exit_codes)).toContain("70");
    expect(breaksOf(older, surfaceOf(root))).toEqual([]);
  });

  it.each<[string, (surface: Surface) => void, string]>([
    ["an endpoint", ({ api }) => delete api["GET /v1/keys"], "GET /v1/keys is gone"],
    ["a field of an answer", ({ api }) => api["GET /v1/keys"]?.answer.splice(0), "data[].display_prefix is gone"],
    ["a field of a body", ({ api }) => api["POST /v1/keys"]?.body.splice(0), "POST /v1/keys body: scopes is gone"],
    ["a parameter", ({ api }) => api["GET /v1/keys"]?.parameters.splice(0), "parameters: tenant_id is gone"],
    ["a command", ({ commands }) => delete commands["keyrack key create"], "keyrack key create is gone"],
    ["a flag", ({ commands }) => commands["keyrack key create"]?.splice(0), "keyrack key create: --scopes is gone"],
    ["an exit code", ({ exit_codes }) => delete exit_codes["3"], "exit codes: 3 is gone"],
    ["a setting", ({ settings }) => settings.splice(0), "settings: KEYRACK_PORT is gone"],
    ["a metric", ({ metrics }) => metrics.splice(0), "metrics: keyrack_commits is gone"],
    ["an export", ({ sdk }) => sdk["express"]?.splice(0), "express: protect is gone"],
  ])("is found to lack %s", (_what, remove, message) => {
    const surface = surfaceOf(root);
    remove(surface);
    expect(breaksOf(surfaceOf(root), surface).some((each) => each.includes(message))).toBe(true);
  });

  it("has every exit code that the program ends with", () => {
    const codes = filesIn("src", ".ts").flatMap((file) => [
      ...readText(file).matchAll(/(?:ExitError\([^;]*, |\bexitCode(?: =|:) |process\.exit\()(\d+)\b/g),
    ]);
    expect(codes.length).toBeGreaterThan(50);
    const declared = Object.keys(surfaceOf(root).exit_codes);
    expect(codes.map(([, code = ""]) => code).filter((code) => !declared.includes(code))).toEqual([]);
  });

  it("is found to require a field", () => {
    const surface = surfaceOf(root);
    surface.api["POST /v1/keys"]?.required.push("name");
    expect(breaksOf(surfaceOf(root), surface)).toEqual(["POST /v1/keys: name is required"]);
  });
});
