// An export ends with its credential, however much has been read and however slowly its client takes it.
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { startExport } from "../../../src/domain/core/exports.ts";
import { fail, type Failure } from "../../../src/kernel/errors.ts";

describe("an export", () => {
  let fixture: TestServices;
  beforeAll(async () => {
    fixture = await testServices("sqlite");
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  async function* pieces(): AsyncGenerator<string, void> {
    for (let i = 0; ; i++) yield `${i}\n`;
  }

  const endable = async () => {
    let failure: Failure | undefined;
    const requireStillValid = async (): Promise<void> => {
      if (failure) throw failure;
    };
    const ctx = { ...(await vendorOf(fixture.services)), requireStillValid };
    return { ctx, end: (by = fail("invalid_key")) => (failure = by) };
  };

  it("sends no piece after its credential has ended", async () => {
    const { ctx, end } = await endable();
    const { pieces: sent, ended } = await startExport(ctx, "audit_export", pieces());
    const stream = sent[Symbol.asyncIterator]();
    expect(await stream.next()).toEqual({ value: "0\n", done: false });
    expect(await stream.next()).toEqual({ value: "1\n", done: false });
    end();
    await expect(stream.next()).rejects.toMatchObject({ failure: "invalid_key" });
    ended();
  });

  it("is cut within five seconds where its client does not take the next piece", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    const { ctx, end } = await endable();
    const { cut, ended } = await startExport(ctx, "audit_export", pieces());
    await vi.advanceTimersByTimeAsync(5_000);
    expect(cut.aborted).toBe(false);
    end(fail("unavailable")); // the database is out of reach for a moment
    await vi.advanceTimersByTimeAsync(5_000);
    expect(cut.aborted).toBe(false);
    end();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(cut.aborted).toBe(true);
    ended();
    expect(vi.getTimerCount()).toBe(0);
  });
});
