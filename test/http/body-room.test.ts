// Large bodies use the turns of their owner: a flood of them does not delay what another owner has ready.
import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { Bodies } from "../../src/fairness/bodies.ts";
import { Ledger } from "../../src/fairness/ledger.ts";
import { cellOwner, networkOwner } from "../../src/fairness/owners.ts";
import type { Shares } from "../../src/fairness/shares.ts";
import { Turns } from "../../src/fairness/turns.ts";
import { ANONYMOUS } from "../../src/domain/core/actor.ts";
import { BodyRoom } from "../../src/http/body/body-room.ts";
import type { HttpRequest } from "../../src/http/request.ts";

const UNBOUNDED = { bound: Number.POSITIVE_INFINITY, share: Number.POSITIVE_INFINITY };
const MIB = 1024 * 1024;

/** A body of this size has arrived from a network that has not waited so far. */
function largeBody(bytes: number, limits = UNBOUNDED) {
  const turns = new Turns(new Ledger(UNBOUNDED), () => 0);
  const address = "203.0.113.7";
  const [sender, quiet] = [networkOwner(address), cellOwner("quiet", "live")];
  for (const owner of [quiet, sender]) turns.run(owner, () => {});
  const socket = new Socket();
  const shares = { of: () => new Ledger(limits) } as unknown as Shares;
  const request = { socket, actor: ANONYMOUS, headers: {} } as unknown as HttpRequest;
  const bodies = new Bodies(shares);
  const room = new BodyRoom(bodies, request, { turns, addressOf: () => address });
  const done: string[] = [];
  const [take, refuse] = room.inTurn(
    (text: string) => done.push(text),
    (error: string) => done.push(error),
  );
  Object.defineProperty(socket, "bytesRead", { value: bytes });
  return { room, bodies, socket, turns, sender, quiet, take, refuse, done };
}

describe("a large body", () => {
  it("costs its owner turns, and no other owner", () => {
    const { turns, sender, quiet, take, done } = largeBody(2 * MIB);
    take("parsed");
    expect(done).toEqual(["parsed"]);
    expect(turns.mustWait(sender)).toBe(true);
    expect(turns.mustWait(quiet)).toBe(false);
  });

  it("costs the same when it is refused", () => {
    const { turns, sender, refuse, done } = largeBody(2 * MIB);
    refuse("too complex");
    expect(done).toEqual(["too complex"]);
    expect(turns.mustWait(sender)).toBe(true);
  });

  it("waits behind what its owner has used", () => {
    const { turns, sender, quiet, take, done } = largeBody(2 * MIB);
    turns.charge(sender, 1);
    take("parsed");
    turns.run(quiet, () => done.push("quiet"));
    expect(done).toEqual(["quiet"]);
  });

  it("is worked on in turns of its owner, behind what another owner has ready", async () => {
    const { room, turns, sender, quiet, done } = largeBody(2 * MIB);
    const { inTurn } = room.rawBody(Buffer.alloc(0), { start: 0, commas: [], end: 0 }).pieces ?? expect.fail();
    turns.charge(sender, 1);
    const piece = inTurn(() => done.push("piece"));
    turns.run(quiet, () => done.push("quiet"));
    expect(done).toEqual(["quiet"]);
    expect(await piece).toBe(2);
    const failed = inTurn(() => {
      throw new Error("invalid");
    });
    await expect(failed).rejects.toThrow("invalid");
  });

  const CUTS = { start: 0, commas: [], end: 0 };

  it("that is small needs room once what was parsed of it waits for another turn", async () => {
    const { room, bodies, sender } = largeBody(1_000, { bound: 1.5 * MIB, share: 1.5 * MIB });
    bodies.tryReserve(sender, MIB, () => {});
    const { inTurn } = room.rawBody(Buffer.alloc(0), CUTS).pieces ?? expect.fail();
    expect(await inTurn(() => "first")).toBe("first");
    await expect(inTurn(() => "second")).rejects.toMatchObject({ failure: "share_full" });
  });

  it("is not parsed further once its client is gone", async () => {
    const { room, socket } = largeBody(1_000);
    const { inTurn } = room.rawBody(Buffer.alloc(0), CUTS).pieces ?? expect.fail();
    await inTurn(() => "first");
    socket.destroy();
    await expect(inTurn(() => "second")).rejects.toMatchObject({ failure: "malformed_request" });
  });
});
