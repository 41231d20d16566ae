// The guard on an injected clock: shedding starts after five seconds of lag and ends with it; old requests are answered.
import type { IncomingMessage } from "node:http";
import { describe, expect, it } from "vitest";
import { OverloadGuard, type PendingResponse } from "../../src/http/overload-guard.ts";
import type { FastResponse } from "../../src/http/fast/response.ts";

function setUp() {
  let now = 0;
  const refused: FastResponse[] = [];
  const late: FastResponse[] = [];
  let hook = (): void => {};
  const guard = new OverloadGuard(
    (res, tookTooLong) => {
      (tookTooLong ? late : refused).push(res);
      if (tookTooLong) hook();
    },
    () => now,
  );
  const request = (url = "/v1/keys") => {
    const res = { headersSent: false, destroyed: false } as FastResponse;
    const turnedAway = guard.turnsAway({ url } as IncomingMessage, res);
    const place = turnedAway ? undefined : guard.watch(res);
    return { res, turnedAway, place };
  };
  /** Lets time pass in ticks of a given length. */
  const pass = (ms: number, tick: number): void => {
    for (const until = now + ms; now < until; ) {
      now += tick;
      guard.tick();
    }
  };
  const onLate = (also: () => void): void => void (hook = also);
  return { guard, refused, late, onLate, request, pass };
}

describe("the guard", () => {
  it("sheds after five seconds of lag, never the probes, and stops when the loop is well again", () => {
    const { guard, request, pass } = setUp();
    pass(4_000, 1_000);
    expect(guard.shedding).toBe(false);
    pass(3_000, 1_000);
    expect(guard.shedding).toBe(true);
    expect(request().turnedAway).toBe(true);
    for (const probe of ["/healthz", "/readyz?x=1", "/status"]) expect(request(probe).turnedAway).toBe(false);
    pass(250, 250);
    expect(guard.shedding).toBe(false);
    expect(request().turnedAway).toBe(false);
  });

  it("does not shed for single stalls", () => {
    const { guard, pass } = setUp();
    for (let i = 0; i < 10; i++) {
      pass(3_000, 3_000);
      pass(250, 250);
    }
    expect(guard.shedding).toBe(false);
  });

  it("keeps its row whole, whichever answers leave it, in whatever order and however often", () => {
    const { guard, late, request, pass } = setUp();
    const [first, second, third, fourth] = [request(), request(), request(), request()];
    for (const { place } of [second, fourth, second, fourth]) guard.release(place as PendingResponse);
    const fifth = request();
    guard.release(first.place as PendingResponse);
    pass(31_000, 250);
    expect(late).toEqual([third.res, fifth.res]);
    for (const { place } of [third, fifth]) guard.release(place as PendingResponse); // the handler is done at last
    const sixth = request();
    pass(31_000, 250);
    expect(late).toEqual([third.res, fifth.res, sixth.res]);
  });

  it("refuses nobody twice though a refusal lets another answer go", () => {
    const { guard, late, onLate, request, pass } = setUp();
    const [first, second, third] = [request(), request(), request()];
    onLate(() => guard.release(second.place as PendingResponse));
    pass(31_000, 250);
    expect(late).toEqual([first.res, third.res]);
  });

  it("answers a request that is thirty seconds old, once, and leaves answered ones alone", () => {
    const { late, request, pass } = setUp();
    const slow = request().res;
    const done = request().res;
    (done as { headersSent: boolean }).headersSent = true;
    pass(29_750, 250);
    expect(late).toEqual([]);
    pass(1_000, 250);
    expect(late).toEqual([slow]);
  });
});
