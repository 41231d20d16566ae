// Reading a request's body: one verdict, whatever comes after it.
import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import { readBody } from "../../src/http/body.ts";

function reading(stream: PassThrough, max = 100) {
  const verdicts: unknown[] = [];
  readBody(
    stream as unknown as IncomingMessage,
    max,
    (bytes) => verdicts.push(bytes.toString()),
    (failure) => verdicts.push(failure.status),
  );
  return verdicts;
}

const closed = (stream: PassThrough) => new Promise((resolve) => stream.once("close", resolve));

it("a client who left before the body is asked for is refused, not waited for", () => {
  expect(reading(new PassThrough().destroy())).toEqual([400]);
});

it("a body in pieces is one body", async () => {
  const stream = new PassThrough();
  const verdicts = reading(stream);
  stream.write("ab");
  stream.end("cd");
  await closed(stream);
  expect(verdicts).toEqual(["abcd"]);
});

it("a body past its limit is refused once, however much follows and however it ends", async () => {
  for (const end of ["end", "destroy"] as const) {
    const stream = new PassThrough();
    const verdicts = reading(stream, 3);
    for (let i = 0; i < 5; i++) stream.write("ab");
    await new Promise((resolve) => setImmediate(resolve));
    if (end === "end") stream.end();
    else stream.destroy(new Error("gone"));
    await closed(stream);
    expect(verdicts).toEqual([413]);
  }
});

it("a client who leaves half-way is refused; one who leaves after the whole body changes nothing", async () => {
  const half = new PassThrough();
  const verdicts = reading(half);
  half.write("ab");
  await new Promise((resolve) => setImmediate(resolve));
  half.destroy(new Error("aborted"));
  await closed(half);
  expect(verdicts).toEqual([400]);

  const whole = new PassThrough({ autoDestroy: false });
  const taken = reading(whole);
  whole.end("ab");
  await new Promise((resolve) => whole.once("end", resolve));
  whole.destroy(new Error("aborted"));
  await closed(whole);
  expect(taken).toEqual(["ab"]);
});
