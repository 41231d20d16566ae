// Calls that compile, or once did, but cannot mean what they say: the library logs them instead of guessing.

import { describe, expect, it } from "vitest";
import type { Keyrack } from "../../src/sdk/instance.ts";
import { internalsOf } from "../../src/sdk/internals.ts";
import { startTestKeyrack, type TestKeyrack } from "../../harness/sdk/test-keyrack.ts";
import { until } from "../../harness/waiting.ts";

const warned = ({ lines }: TestKeyrack) =>
  lines.filter(({ level }) => level === "warn").map(({ message, fields }) => [message, fields]);

describe("verify", () => {
  it("refuses a key that is not a text, and logs the first with its type only", async () => {
    await using instance = await startTestKeyrack();
    const { key } = instance.plane.mint();
    await until(() => instance.keyrack.verify(key).ok);
    const wrong: unknown[] = [Promise.resolve(key), { "x-api-key": key }, [key], 5];
    for (const value of wrong)
      expect(instance.keyrack.verify(value)).toMatchObject({ ok: false, code: "invalid_key", status: 401 });
    expect(warned(instance)).toEqual([["verify was called with a key that is not a text", { type: "object" }]]);
  });

  it("logs nothing for a request without a key, which clients send", async () => {
    await using instance = await startTestKeyrack();
    for (const none of [undefined, null, ""])
      expect(instance.keyrack.verify(none)).toMatchObject({ ok: false, code: "missing_key" });
    expect(warned(instance)).toEqual([]);
  });
});

describe("report", () => {
  it("logs the first request without context and denial, and counts it as before", async () => {
    await using instance = await startTestKeyrack();
    const { key } = instance.plane.mint();
    await until(() => instance.keyrack.verify(key).ok);
    const request: Parameters<Keyrack["report"]>[0] = { method: "GET", path: "/", status: 200, durationMs: 1 };
    const admitted = instance.keyrack.verify(key);
    const denial = instance.keyrack.verify("");
    if (!admitted.ok || denial.ok) throw new Error("one key is valid, the other is missing");
    instance.keyrack.report({ ...request, context: admitted.context });
    instance.keyrack.report({ ...request, context: null, denial, status: 401 });
    expect(warned(instance)).toEqual([]);
    for (let i = 0; i < 2; i++) instance.keyrack.report(request);
    expect(warned(instance)).toEqual([[expect.stringContaining("report needs context or denial"), {}]]);
    await instance.keyrack.close();
    expect(instance.plane.ingest.events.length).toBe(4);
    expect(instance.plane.ingest.dropped).toBe(0);
  });
});

describe("protect", () => {
  it("logs the names of tags that will be left out, when the route is created", async () => {
    await using instance = await startTestKeyrack();
    const value = "kr_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904bfc";
    const tags = { region: "eu", "1st": "a", _x: "b", Plan: "c", key: value, long: "x".repeat(65) };
    internalsOf(instance.keyrack).guard({ tags });
    internalsOf(instance.keyrack).guard({ tags: { a: "1", b: "2", c: "3", d: "4", e: "5" } });
    internalsOf(instance.keyrack).guard({ tags: { region: "eu" } });
    const message = "invalid tags in the options of protect";
    expect(warned(instance)).toEqual([
      [message, { tags: ["1st", "_x", "Plan", "key", "long"] }],
      [message, { tags: ["e"] }],
    ]);
  });
});
