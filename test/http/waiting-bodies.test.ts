// Bodies of requests that have not started: those that wait behind another of their connection, or for a turn of their
// owner.
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { turns, until } from "../../harness/waiting.ts";
import type { Owner } from "../../src/fairness/owners.ts";
import type { Turns } from "../../src/fairness/turns.ts";
import { attribute, type Listener } from "../../src/http/receiving/pipelining.ts";
import { answers, requests, serve } from "./pipelining-server.ts";

const post = (path: string, length: number, key = "a"): string =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-length: ${length}\r\n\r\n${"x".repeat(length)}`;

describe("bodies of pipelined requests", () => {
  it("are not read beyond 64 KiB of bodies that wait, and bodies count towards the owner's share", async () => {
    const held: ServerResponse[] = [];
    const next: Listener = (req, res) => {
      if (req.method === "GET") held.push(res);
      else req.resume().once("end", () => res.end(`${req.url}\n`));
    };
    const { client, ledger, parsed } = await serve(next, { share: 40 });
    const [first, second] = [await client(), await client()];
    first.socket.write(requests(1, "a") + post("/a/1", 63_000).repeat(16));
    await until(() => held[0]?.req.socket.isPaused() === true);
    await turns(10);
    expect([parsed.reduce((a, b) => a + b, 0), ledger.used]).toEqual([3, 32]); // 16 each
    second.socket.write(requests(1, "a") + post("/a/1", 63_000));
    await until(() => ledger.refused.get("network") === 1);
    for (const res of held) res.end("/a/0\n");
    // The first connection is read again. How many of its bodies wait together then depends on what arrives at once.
    await until(() => answers(first.text()).length > 3 && second.text().includes("HTTP/1.1 503"));
    await until(() => ledger.used === 0);
  });
});

describe("bodies of requests that wait for a turn", () => {
  /** Only the first request of each connection gets its turn before `pass`. */
  async function flooded(limits: { bound?: number; share?: number }) {
    const started: string[] = [];
    const waiting: (() => void)[] = [];
    let isOpen = true;
    const turns = {
      run: (_owner: Owner, work: () => void) => (isOpen ? work() : waiting.push(work)),
      mustWait: () => false,
      noteActive: () => {},
    } as unknown as Turns;
    const next: Listener = (req, res) => {
      attribute(req.socket, { kind: "user", user_id: String(req.headers.authorization) });
      started.push(req.url ?? "");
      req.resume().once("end", () => res.end(`${req.url}\n`));
    };
    const { client, ledger } = await serve(next, { ...limits, turns });
    const open = async (...keys: string[]) => {
      const clients = await Promise.all(keys.map(client));
      for (const [i, { socket }] of clients.entries()) socket.write(requests(1, keys[i] as string));
      await until(() => clients.every(({ text }) => answers(text()).length === 1));
      isOpen = false;
      started.length = 0;
      return clients;
    };
    const pass = (): void => {
      for (const work of waiting.splice(0)) work();
    };
    return { open, ledger, started, waiting, pass };
  }

  it("count towards the owner's share, and a request above it is refused in its turn without them", async () => {
    const { open, ledger, started, waiting, pass } = await flooded({ share: 40 });
    const clients = await open("a", "a", "a", "a");
    for (const [i, length] of [63_000, 63_000, 63_000, 1_000].entries()) {
      clients[i]?.socket.write(post(`/a/${i + 1}`, length));
      await until(() => waiting.length === i + 1);
    }
    const [, , third, small] = clients;
    expect([ledger.used, ledger.refused.get("person"), started.length]).toEqual([32, 1, 0]);
    expect(third?.text()).not.toContain("503");
    const closed = once(third!.socket, "close");
    pass();
    await Promise.all([closed, until(() => answers(small!.text()).length === 2)]);
    expect(third?.text()).toContain("HTTP/1.1 503");
    expect([started, ledger.used]).toEqual([["/a/1", "/a/2", "/a/4"], 0]);
  });

  it("are dropped at the total bound for a smaller owner's", async () => {
    const { open, ledger, started, waiting, pass } = await flooded({ bound: 40 });
    const keys = ["flood", "flood", "quiet"];
    const clients = await open(...keys);
    for (const [i, key] of keys.entries()) {
      clients[i]?.socket.write(post(`/${key}/${i}`, 63_000, key));
      await until(() => waiting.length === i + 1);
    }
    const [first] = clients;
    expect([ledger.used, ledger.refused.get("person")]).toEqual([32, 1]);
    const closed = once(first!.socket, "close");
    pass();
    await closed;
    expect(first?.text()).toContain("HTTP/1.1 503");
    expect([started, ledger.used]).toEqual([["/flood/1", "/quiet/2"], 0]);
  });
});
