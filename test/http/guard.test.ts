// The guard on an injected clock: shedding starts after five seconds of lag and ends with it; old requests are answered.
import type { IncomingMessage } from "node:http";
import { describe, expect, it } from "vitest";
import { Guard } from "../../src/http/guard.ts";
import type { Response } from "../../src/http/response.ts";

function setUp() {
  let now = 0;
  const refused: Response[] = [];
  const late: Response[] = [];
  const guard = new Guard(
    (res, tookTooLong) => void (tookTooLong ? late : refused).push(res),
    () => now,
  );
  const request = (url = "/v1/keys") => {
    const res = { headersSent: false, destroyed: false } as Response;
    const turnedAway = guard.turnsAway({ url } as IncomingMessage, res);
    if (!turnedAway) guard.watch(res);
    return { res, turnedAway };
  };
  /** Lets time pass in ticks of a given length. */
  const pass = (ms: number, tick: number): void => {
    for (const until = now + ms; now < until; ) {
      now += tick;
      guard.tick();
    }
  };
  return { guard, refused, late, request, pass };
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
