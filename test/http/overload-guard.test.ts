// The overload guard on an injected clock: sheds after five seconds of lag, and responds for requests that take too
// long.
import { Readable } from "node:stream";
import type { IncomingMessage, ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { OverloadGuard } from "../../src/http/overload-guard.ts";
import { HttpResponse, type Respond } from "../../src/http/response.ts";
import { yieldToEventLoop } from "../../src/platform/event-loop.ts";

function setUp() {
  let now = 0;
  const late: ServerResponse[] = [];
  let hook = (): void => {};
  const guard = new OverloadGuard(() => now);
  const request = (complete = true) => {
    const res = { headersSent: false, destroyed: false, req: { complete } } as unknown as ServerResponse;
    const responses: HttpResponse[] = [];
    const entry = guard.watch(res, (response) => {
      responses.push(response);
      late.push(res);
      hook();
    });
    return { res, entry, responses };
  };
  /** Lets time pass in ticks of a given length. */
  const pass = async (ms: number, tick: number): Promise<void> => {
    for (const until = now + ms; now < until; ) {
      now += tick;
      guard.tick();
    }
    await yieldToEventLoop(); // refusals are finished
  };
  const onLate = (also: () => void): void => void (hook = also);
  return { guard, late, onLate, request, pass };
}

const to = (url: string) => ({ url }) as IncomingMessage;

describe("the overload guard", () => {
  it("sheds after five seconds of lag, never the probes, and stops when the event loop has recovered", async () => {
    const { guard, pass } = setUp();
    await pass(4_000, 1_000);
    expect(guard.shedding).toBe(false);
    await pass(3_000, 1_000);
    expect(guard.shedding).toBe(true);
    expect(guard.sheds(to("/v1/keys"))).toBe(true);
    for (const probe of ["/healthz", "/readyz?x=1", "/status"]) expect(guard.sheds(to(probe))).toBe(false);
    await pass(250, 250);
    expect(guard.shedding).toBe(false);
    expect(guard.sheds(to("/v1/keys"))).toBe(false);
  });

  it("does not shed for single stalls", async () => {
    const { guard, pass } = setUp();
    for (let i = 0; i < 10; i++) {
      await pass(3_000, 3_000);
      await pass(250, 250);
    }
    expect(guard.shedding).toBe(false);
  });

  it("refuses at the deadline exactly the requests that are not released, in whichever order others are", async () => {
    const { guard, late, request, pass } = setUp();
    const [first, second, third, fourth] = [request(), request(), request(), request()];
    for (const { entry } of [second, fourth, second, fourth]) guard.release(entry);
    const fifth = request();
    guard.release(first.entry);
    await pass(31_000, 250);
    expect(late).toEqual([third.res, fifth.res]);
    for (const { entry } of [third, fifth]) guard.release(entry); // their handlers finish at last
    const sixth = request();
    await pass(31_000, 250);
    expect(late).toEqual([third.res, fifth.res, sixth.res]);
  });

  it("refuses no request that was answered by the refusal of another", async () => {
    const { late, onLate, request, pass } = setUp();
    const [first, second, third] = [request(), request(), request()];
    onLate(() => Object.assign(second.res, { headersSent: true }));
    await pass(31_000, 250);
    expect(late).toEqual([first.res, third.res]);
  });

  it("responds 503 to a request that is thirty seconds old, once, and leaves answered and abandoned ones alone", async () => {
    const { late, request, pass } = setUp();
    const slow = request();
    Object.assign(request().res, { headersSent: true });
    Object.assign(request().res, { destroyed: true });
    await pass(29_750, 250);
    expect(late).toEqual([]);
    await pass(1_000, 250);
    expect(late).toEqual([slow.res]);
    expect(slow.responses.map(({ status }) => status)).toEqual([503]);
  });

  it("closes the connection of a late request whose body is still arriving, and of no other", async () => {
    const { request, pass } = setUp();
    const [whole, half] = [request(true), request(false)];
    await pass(31_000, 250);
    expect(whole.responses[0]?.headers.connection).toBeUndefined();
    expect(half.responses[0]?.headers.connection).toBe("close");
  });

  it("passes on the first of several responses: the handler's, or the refusal at the deadline", async () => {
    const { guard, pass } = setUp();
    const ok = new HttpResponse(200, "ok");
    const serve = (): { respond: Respond; sent: number[] } => {
      const sent: number[] = [];
      let respond: Respond = () => {};
      const res = { headersSent: false, destroyed: false, req: { complete: true } } as unknown as ServerResponse;
      guard.serve(
        res,
        (given) => (respond = given),
        ({ status }) => sent.push(status),
      );
      return { respond, sent };
    };
    const [quick, slow] = [serve(), serve()];
    quick.respond(ok);
    await pass(31_000, 250);
    const late = Readable.from(["a stream"]);
    slow.respond(new HttpResponse(200, late));
    quick.respond(ok);
    expect([quick.sent, slow.sent]).toEqual([[200], [503]]);
    expect(late.destroyed).toBe(true); // no client reads it: what it holds must be released
  });
});
