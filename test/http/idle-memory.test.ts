// An idle connection keeps nothing of the body it sent, read or unread.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { formatCredential } from "../../src/kernel/credentials.ts";
import { usedMegabytes } from "../../harness/memory/heap.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";

/** Of each kind. */
const CONNECTIONS = 40;
const LENGTH = 240_000;

const unknown = formatCredential("secret_key", "live", new Uint8Array(24).fill(7)); // well formed but unknown

const body = `content-length: ${LENGTH}\r\n\r\n${"x".repeat(LENGTH)}`;

const answers = [
  ["/v1/tenants", 401], // refused unread
  ["/v1/auth/sessions", 400], // read, then refused
] as const;

// On one database: what a connection keeps does not depend on it.
describe("an idle connection", () => {
  it("keeps nothing of a body that was answered with 401 unread, or with 400 when it was read", async () => {
    await using instance = await testInstance("sqlite");
    const head = `host: x\r\nauthorization: Bearer ${unknown}\r\ncontent-type: application/json\r\n`;
    const sockets: Socket[] = [];
    const sendBody = async (path: string, status: number): Promise<void> => {
      const socket = connect(Number(new URL(instance.url).port), "127.0.0.1");
      sockets.push(socket);
      socket.write(`POST ${path} HTTP/1.1\r\n${head}${body}`);
      const [answer] = (await once(socket, "data")) as [Buffer];
      expect(answer.toString("latin1", 9, 12)).toBe(String(status));
    };
    for (const [path, status] of answers) await sendBody(path, status); // the first of its kind also loads code
    // One measurement for both: it collects the garbage of the whole test process.
    const before = await usedMegabytes();
    for (const [path, status] of answers) for (let i = 0; i < CONNECTIONS; i++) await sendBody(path, status);
    expect((await usedMegabytes()) - before).toBeLessThan(5); // what either kind sent is 9.2
    for (const socket of sockets) socket.destroy();
  });
});
