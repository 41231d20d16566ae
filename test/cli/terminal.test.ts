// What reaches the terminal, and what happens when nobody reads it any more.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { BIN, cleanEnv } from "../../prove/server.ts";
import { keyrack } from "../support/cli.ts";

it("a reader who has left (`| head`) is no error", async () => {
  const child = spawn(BIN, ["key", "--help"], { env: cleanEnv({}), stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  const said = text(child.stderr);
  const [code] = (await once(child, "close")) as [number];
  expect([code, await said]).toEqual([0, ""]);
});

it("a server's refusal cannot steer the terminal", async () => {
  const message = "No.\u001b]0;title\u0007\u001b[2J";
  const server = createServer((_req, res) => res.writeHead(403).end(JSON.stringify({ error: { message } })));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    const ran = await keyrack(["whoami", "--url", url, "--secret-key", "krsk_x"]);
    expect(ran.code).toBe(1);
    expect(ran.stderr).toBe("keyrack: No.\\u001b]0;title\\u0007\\u001b[2J\n");
  } finally {
    server.close().closeAllConnections();
  }
});
