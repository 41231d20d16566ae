// Requests that a client sends before the answers to earlier ones: one of a connection runs at a time, few wait, and
// other owners take their turns in between.
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { turns, until } from "../../harness/waiting.ts";
import { onDisconnect } from "../../src/http/request.ts";
import { attribute, type Listener } from "../../src/http/receiving/pipelining.ts";
import { answers, requests, serve } from "./pipelining-server.ts";

describe("pipelined requests", () => {
  it("run one at a time, and are answered in order", async () => {
    const running = new Set<ServerResponse>();
    let most = 0;
    const { client, ledger } = await serve((req, res) => {
      running.add(res);
      most = Math.max(most, running.size);
      setImmediate(() => {
        running.delete(res);
        res.end(`${req.url}\n`);
      });
    });
    const { socket, text } = await client();
    socket.write(requests(100, "a"));
    await until(() => answers(text()).length === 100);
    expect(answers(text())).toEqual(Array.from({ length: 100 }, (_, i) => `/a/${i}`));
    expect([most, ledger.used]).toEqual([1, 0]);
  });

  it("are not read beyond those that wait, until answers leave", async () => {
    const held: { req: IncomingMessage; res: ServerResponse }[] = [];
    let isHolding = true;
    const { client, ledger } = await serve((req, res) => {
      if (isHolding) held.push({ req, res });
      else res.end(`${req.url}\n`);
    });
    const { socket, text } = await client();
    const COUNT = 500;
    socket.write(requests(COUNT, "a", 0, `x-long: ${"x".repeat(800)}\r\n`)); // 80 fit into one piece
    await until(() => held[0]?.req.socket.isPaused() === true);
    expect(held.length).toBe(1);
    expect(ledger.used).toBeGreaterThan(16);
    expect(ledger.used).toBeLessThanOrEqual(100);
    isHolding = false;
    held[0]?.res.end("/a/0\n");
    await until(() => answers(text()).length === COUNT);
    expect(answers(text())).toEqual(Array.from({ length: COUNT }, (_, i) => `/a/${i}`));
    expect(ledger.used).toBe(0);
  });

  it("are answered as far as 100 may wait; then their connection is closed, and no more of them are parsed", async () => {
    const held: ServerResponse[] = [];
    const { client, ledger, parsed } = await serve((_req, res) => void held.push(res));
    const { socket, text } = await client();
    socket.write(requests(1_000, "a"));
    await until(() => parsed.length > 0);
    expect([parsed, ledger.used, ledger.refused.get("network")]).toEqual([[102], 100, 1]);
    const closed = once(socket, "close");
    for (let i = 0; i <= 100; i++) {
      await until(() => held.length > i);
      held[i]?.end(`${held[i]?.req.url}\n`);
    }
    await closed;
    expect(answers(text())).toEqual(Array.from({ length: 101 }, (_, i) => `/a/${i}`));
    expect(text().match(/HTTP\/1\.1 503/g)).toHaveLength(1);
    expect([parsed, ledger.used]).toEqual([[102], 0]);
  });

  it("are refused above the owner's share, and leave nothing behind with their connection", async () => {
    const held: ServerResponse[] = [];
    const { client, ledger } = await serve((_req, res) => void held.push(res), { share: 3 });
    const { socket, text } = await client();
    socket.write(requests(6, "a"));
    await until(() => ledger.refused.get("network") === 1);
    expect([held.length, ledger.used]).toEqual([1, 3]);
    socket.destroy();
    await until(() => ledger.used === 0);
    expect([held.length, text()]).toEqual([1, ""]);
  });

  it("take the place of the largest owner's at the total bound", async () => {
    const held: ServerResponse[] = [];
    const next: Listener = (req, res) => {
      attribute(req.socket, { kind: "user", user_id: String(req.headers.authorization) });
      held.push(res);
    };
    const { client, ledger } = await serve(next, { bound: 4 });
    const [flood, quiet] = [await client(), await client()];
    flood.socket.write(requests(5, "flood"));
    await until(() => ledger.used === 4);
    quiet.socket.write(requests(2, "quiet"));
    await until(() => held.length === 2 && ledger.refused.get("person") === 1);
    expect(ledger.used).toBe(4);
    for (let i = 0; i < 6; i++) {
      await until(() => held.length > i);
      held[i]?.end(`${held[i]?.req.url}\n`);
    }
    await until(() => answers(quiet.text()).length === 2 && answers(flood.text()).length === 4);
    expect(answers(flood.text())).toEqual(["/flood/0", "/flood/2", "/flood/3", "/flood/4"]);
    expect(flood.text().match(/HTTP\/1\.1 503/g)).toHaveLength(1);
    expect(quiet.text()).not.toContain("503");
  });

  it("that were all evicted leave a connection that is read again", async () => {
    const held = new Map<string, ServerResponse>();
    const next: Listener = (req, res) => {
      attribute(req.socket, { kind: "user", user_id: String(req.headers.authorization) });
      held.set(req.url ?? "", res);
    };
    const WAITING = 17;
    const { client, ledger } = await serve(next, { bound: WAITING });
    const flood = await client();
    flood.socket.write(requests(1 + WAITING, "flood"));
    await until(() => held.get("/flood/0")?.req.socket.isPaused() === true);
    for (let i = 1; i <= WAITING; i++) {
      const other = await client();
      other.socket.write(requests(2, `o${i}`));
      await until(() => ledger.refused.get("person") === i);
    }
    held.get("/flood/0")?.end("/flood/0\n");
    await until(() => flood.text().match(/HTTP\/1\.1 503/g)?.length === WAITING);
    flood.socket.write(requests(1, "flood", 99));
    await until(() => held.has("/flood/99"));
    expect(flood.text()).not.toContain("/flood/1\n");
  });

  it("end the wait of the one before them where the socket is not read: it cannot show a disconnect", async () => {
    let ended = 0;
    const { client } = await serve((req, res) => {
      const unregister = onDisconnect(req)(() => {
        ended++;
        setImmediate(() => {
          unregister();
          res.end(`${req.url}\n`);
        });
      });
    });
    const { socket, text } = await client();
    socket.write(requests(1, "a"));
    await turns(20);
    expect(ended).toBe(0);
    socket.write(requests(30, "a", 1));
    await until(() => answers(text()).length >= 14);
    socket.destroy();
  });

  it("of one owner do not delay another owner's", async () => {
    const order: string[] = [];
    let now = 0;
    const next: Listener = (req, res) => {
      attribute(req.socket, { kind: "user", user_id: String(req.headers.authorization) });
      order.push(req.url ?? "");
      now += 0.25;
      res.end(`${req.url}\n`);
    };
    const { client } = await serve(next, { now: () => now });
    const [flood, quiet] = [await client(), await client()];
    flood.socket.write(requests(1, "flood"));
    quiet.socket.write(requests(1, "quiet"));
    await until(() => answers(flood.text() + quiet.text()).length === 2); // both owners are known
    flood.socket.write(requests(100, "flood", 1));
    quiet.socket.write(requests(1, "quiet", 1));
    await until(() => answers(flood.text()).length === 101);
    expect(answers(flood.text())).toEqual(Array.from({ length: 101 }, (_, i) => `/flood/${i}`));
    expect(order.indexOf("/quiet/1")).toBeLessThan(40);
  });

  it("for probes are served at once only where they arrive alone", async () => {
    let [now, inTurnSoFar, most] = [0, 0, 0];
    const next: Listener = (_req, res) => {
      now += 1;
      if (inTurnSoFar++ === 0) setImmediate(() => (inTurnSoFar = 0));
      most = Math.max(most, inTurnSoFar);
      res.end();
    };
    const { client } = await serve(next, { now: () => now });
    const { socket, text } = await client();
    socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".repeat(50));
    await until(() => text().match(/HTTP\/1\.1 200/g)?.length === 50);
    expect(most).toBeLessThanOrEqual(8); // 4 ms at once, as no other owner is active
  });

  it("for probes on many connections wait for the turns of their network, but for a few", async () => {
    let now = 0;
    const order: string[] = [];
    const next: Listener = (req, res) => {
      order.push(req.url ?? "");
      now += 10;
      res.end();
    };
    const { client } = await serve(next, { now: () => now });
    const clients = await Promise.all(Array.from({ length: 41 }, client));
    const probe = (n: number): unknown => clients[n]?.socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    for (let n = 0; n < 41; n++) {
      probe(n);
      await until(() => order.length === n + 1); // accepted, so the next requests of all are read in one turn
    }
    for (let n = 0; n < 40; n++) probe(n);
    clients[40]?.socket.write(requests(1, "known"));
    await until(() => order.length === 82);
    expect(order.indexOf("/known/0") - 41).toBeLessThan(20);
  });

  it("of a known credential do not wait for others of their network, from the first one of a connection on", async () => {
    const order: string[] = [];
    let now = 0;
    const next: Listener = (req, res) => {
      order.push(req.url ?? "");
      if (req.url === "/stranger/0") now += 1e6; // its network has used up very many turns
      res.end(`${req.url}\n`);
    };
    const { client } = await serve(next, { now: () => now });
    const [stranger, known] = [await client(), await client()];
    stranger.socket.write(requests(2, "stranger"));
    await until(() => order.length === 1);
    known.socket.write(requests(1, "known"));
    await until(() => order.length === 2);
    expect(order).toEqual(["/stranger/0", "/known/0"]);
    now += 1e7;
    (await client()).socket.write(requests(1, "stranger", 2));
    await until(() => order.length === 4);
  });

  it("of one owner have longer turns although it opens connections, until another sends any request", async () => {
    const next: Listener = async (req, res) => {
      await new Promise((resolve) => setImmediate(resolve)); // as if a database knew the credential
      const { authorization } = req.headers;
      if (authorization?.endsWith("lone")) attribute(req.socket, { kind: "user", user_id: "lone" });
      res.end(`${req.url}\n`);
    };
    const { client, turns } = await serve(next, { now: () => 0 });
    const send = async (...names: string[]): Promise<void> => {
      const { socket, text } = await client();
      socket.write(names.map((name) => requests(1, name)).join(""));
      await until(() => answers(text()).length === names.length);
    };
    for (let i = 0; i < 3; i++) await send("lone");
    await send("lone", "alone");
    expect(turns.sliceMs).toBe(4);
    await send("stranger");
    await until(() => turns.sliceMs === 0.25);
  });

  it("without a valid credential count their network, also if the client leaves at once", async () => {
    const held: ServerResponse[] = [];
    const next: Listener = (req, res) => {
      if (req.headers.authorization === "Bearer known") res.end();
      else held.push(res);
    };
    for (const text of [requests(2, "stranger"), requests(2, "anonymous", 0, "")]) {
      const { client, turns } = await serve(next, { now: () => 0 });
      const known = await client();
      known.socket.write(requests(1, "known"));
      await until(() => known.text().includes("200"));
      expect(turns.sliceMs).toBe(4);
      const other = await client();
      const before = held.length;
      other.socket.write(text);
      await until(() => held.length > before);
      other.socket.destroy();
      await until(() => turns.sliceMs === 0.25);
    }
  });
});
