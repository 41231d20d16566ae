// When connections with pipelined requests are read.
import type { ServerResponse } from "node:http";
import { Socket } from "node:net";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { turns as loopTurns, until } from "../../harness/waiting.ts";
import { Ledger } from "../../src/fairness/ledger.ts";
import { OwnerRecords } from "../../src/fairness/owner-records.ts";
import { cellOwner } from "../../src/fairness/owners.ts";
import { Turns } from "../../src/fairness/turns.ts";
import { attribute, type Listener } from "../../src/http/receiving/pipelining.ts";
import { Reading, type Unread } from "../../src/http/receiving/reading.ts";
import { answers, requests, serve } from "./pipelining-server.ts";

describe("pipelined requests", () => {
  it("on many connections of one owner are read a few connections at a time, and few of them are parsed", async () => {
    const [CONNECTIONS, BURST, BURSTS] = [16, 40, 5];
    let [now, answered, most] = [0, 0, 0];
    const next: Listener = (req, res) => {
      attribute(req.socket, { kind: "user", user_id: String(req.headers.authorization) });
      now += 0.05;
      if (++answered > CONNECTIONS * BURST) most = Math.max(most, ledger.used);
      res.end(`${req.url}\n`);
    };
    const { client, ledger, parsed } = await serve(next, { now: () => now });
    const quiet = await client();
    quiet.socket.write(requests(1, "quiet"));
    await until(() => answers(quiet.text()).length === 1);
    const flood = await Promise.all(Array.from({ length: CONNECTIONS }, client));
    for (const { socket, text } of flood) {
      let bursts = 1;
      socket.on("data", () => {
        if (bursts < BURSTS && answers(text()).length === bursts * BURST)
          socket.write(requests(BURST, "flood", bursts++));
      });
      socket.write(requests(BURST, "flood"));
    }
    await until(() => flood.every(({ text }) => answers(text()).length === BURSTS * BURST));
    const later = parsed.slice(
      parsed.findIndex((_, i) => parsed.slice(0, i).reduce((a, b) => a + b, 0) > CONNECTIONS * BURST),
    );
    expect(Math.max(...later)).toBeLessThanOrEqual(4 * BURST);
    expect(most).toBeLessThan(4 * BURST);
    expect(ledger.used).toBe(0);
  });

  it("behind a long one do not stop the reading of their owner's other connections", async () => {
    const [OTHERS, BURST] = [8, 10];
    let now = 0;
    const held: ServerResponse[] = [];
    const next: Listener = (req, res) => {
      now += 0.5;
      if (req.url === "/known/0") held.push(res);
      else res.end(`${req.url}\n`);
    };
    const { client, ledger } = await serve(next, { now: () => now });
    const long = await client();
    long.socket.write(requests(80, "known"));
    await until(() => ledger.used === 79);
    const others = await Promise.all(Array.from({ length: OTHERS }, client));
    for (const bursts of [1, 2, 3]) {
      for (const { socket } of others) socket.write(requests(BURST, "known", 1));
      await until(() => others.every(({ text }) => answers(text()).length === bursts * BURST));
    }
    expect([held.length, ledger.used]).toEqual([1, 79]);
  });

  it("that are not read because their owner's requests wait leave nothing behind when they close", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }); // none is read because time has passed
    onTestFinished(() => void vi.useRealTimers());
    const owner = cellOwner("w", "live");
    const ledger = new Ledger({ bound: 1_000, share: 1_000 });
    const turns = new Turns(ledger, () => 0);
    const unread: Unread = new OwnerRecords();
    ledger.take(owner, 64);
    const connections = Array.from({ length: 3 }, () => new Reading(new Socket(), turns, ledger, unread));
    for (const active of [owner, cellOwner("other", "live")]) turns.noteActive(active);
    turns.charge(owner, 1);
    for (const connection of connections) connection.resumeInTurn(owner);
    await loopTurns(5);
    expect(unread.get(owner.id)?.size).toBe(3);
    for (const connection of connections) connection.resume();
    expect([unread.get(owner.id)?.size, vi.getTimerCount()]).toEqual([0, 0]);
  });
});
