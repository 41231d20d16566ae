// Large bodies use the turns of their owner: a flood of them does not delay what another owner has ready.
import { Socket } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { Ledger } from "../../src/fairness/ledger.ts";
import { cellOwner, networkOwner } from "../../src/fairness/owners.ts";
import { Reservations } from "../../src/fairness/reservations.ts";
import { Turns } from "../../src/fairness/turns.ts";
import { ANONYMOUS } from "../../src/domain/core/actor.ts";
import { BodyRoom } from "../../src/http/body/body-room.ts";
import type { HttpRequest } from "../../src/http/request.ts";

const nextRound = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const UNBOUNDED = { bound: Number.POSITIVE_INFINITY, share: Number.POSITIVE_INFINITY };
const MIB = 1024 * 1024;

/** A body of this size arrives from a network that has not waited so far. */
function largeBody(bytes: number, limits = UNBOUNDED) {
  let now = 0;
  const turns = new Turns(new Ledger(UNBOUNDED), () => now);
  const pass = (ms: number): void => void (now += ms);
  const address = "203.0.113.7";
  const [sender, quiet] = [networkOwner(address), cellOwner("quiet", "live")];
  for (const owner of [quiet, sender]) turns.run(owner, () => {});
  const socket = new Socket();
  const request = { socket, actor: ANONYMOUS, headers: { "content-length": String(bytes) } } as unknown as HttpRequest;
  const anonymous = new Reservations(new Ledger(limits));
  const authenticated = new Reservations(new Ledger(limits));
  const room = new BodyRoom({ anonymous, authenticated }, request, { turns, addressOf: () => address });
  const done: string[] = [];
  const [take, refuse] = room.wrapInTurn(
    (text: string) => done.push(text),
    (error: string) => done.push(error),
  );
  return { room, anonymous, socket, turns, sender, quiet, take, refuse, done, pass };
}

describe("a large body", () => {
  const PIECE = 64 * 1024;

  it("is read piece by piece while another owner is active, each in a turn of its owner", async () => {
    const { room, socket, turns, sender, pass } = largeBody(2 * MIB);
    void room.reserve(2 * MIB);
    room.keepPart(PIECE, PIECE);
    expect([socket.isPaused(), turns.mustWait(sender, "body"), turns.mustWait(sender)]).toEqual([false, true, false]);
    room.keepPart(PIECE, 2 * PIECE);
    for (let round = 0; round < 20; round++) await nextRound();
    expect(socket.isPaused()).toBe(true);
    pass(10);
    for (let round = 0; round < 5; round++) await nextRound();
    expect(socket.isPaused()).toBe(false);
    room.keepPart(PIECE, 2 * MIB);
    expect(socket.isPaused()).toBe(false);
  });

  it("in small chunks is charged by its bytes, and waits for one turn at a time", async () => {
    const { room, socket, turns, sender, pass } = largeBody(2 * MIB);
    void room.reserve(2 * MIB);
    const waits = vi.spyOn(turns, "run");
    for (let i = 1; i <= 63; i++) room.keepPart(1_024, i * 1_024);
    expect(turns.mustWait(sender, "body")).toBe(false);
    for (let i = 64; i <= 300; i++) room.keepPart(1_024, i * 1_024);
    expect([waits.mock.calls.length, socket.isPaused()]).toEqual([1, true]);
    const charge = vi.spyOn(turns, "charge");
    socket.destroy();
    pass(10);
    for (let round = 0; round < 5; round++) await nextRound();
    expect(charge).not.toHaveBeenCalled();
  });

  it("in chunks of a byte is charged for each of them, also those of one piece of the socket", async () => {
    const { room, turns, pass } = largeBody(2 * MIB);
    void room.reserve(2 * MIB);
    const charge = vi.spyOn(turns, "charge");
    for (let i = 1; i <= 10_752; i++) room.keepPart(1, i); // each counts as 256 bytes, so these as 42 pieces
    pass(1_000);
    for (let round = 0; round < 5; round++) await nextRound();
    const charged = charge.mock.calls.reduce((sum, [, ms]) => sum + ms, 0);
    expect(charged).toBeCloseTo(42 * 0.8);
  });

  it("waits behind what its owner has used", async () => {
    for (const end of ["take", "refuse"] as const) {
      const large = largeBody(2 * MIB);
      const { turns, sender, quiet, done } = large;
      turns.charge(sender, 1, "body");
      large[end](end);
      turns.run(quiet, () => done.push("quiet"));
      expect(done).toEqual(["quiet"]);
      large.pass(10);
      for (let round = 0; round < 5; round++) await nextRound();
      expect(done).toEqual(["quiet", end]);
    }
  });

  it("is worked on in turns of its owner, behind what another owner has ready", async () => {
    const { room, turns, sender, quiet, done, pass } = largeBody(2 * MIB);
    const { runPiece } = room.rawBody(Buffer.alloc(0), { start: 0, commas: [], end: 0 }).pieces ?? expect.fail();
    turns.charge(sender, 1, "body");
    const piece = runPiece(() => done.push("piece"));
    turns.run(quiet, () => done.push("quiet"));
    expect(done).toEqual(["quiet"]);
    pass(10);
    expect(await piece).toBe(2);
    const failed = runPiece(() => {
      throw new Error("invalid");
    });
    await expect(failed).rejects.toThrow("invalid");
  });

  const CUTS = { start: 0, commas: [], end: 0 };

  it("that is small needs room once what was parsed of it waits for another turn", async () => {
    const { room, anonymous, sender } = largeBody(1_000, { bound: 1.5 * MIB, share: 1.5 * MIB });
    anonymous.tryReserve(sender, MIB, () => {});
    const { runPiece } = room.rawBody(Buffer.alloc(0), CUTS).pieces ?? expect.fail();
    expect(await runPiece(() => "first")).toBe("first");
    await expect(runPiece(() => "second")).rejects.toMatchObject({ failure: "share_full" });
  });

  it("is not parsed further once its client is gone", async () => {
    const { room, socket } = largeBody(1_000);
    const { runPiece } = room.rawBody(Buffer.alloc(0), CUTS).pieces ?? expect.fail();
    await runPiece(() => "first");
    socket.destroy();
    await expect(runPiece(() => "second")).rejects.toMatchObject({ failure: "malformed_request" });
  });
});
