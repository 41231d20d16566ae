// Output that cannot be written, responses of other servers, control characters, and the mode of written files.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { BIN, cleanEnv } from "../../harness/processes/server.ts";
import { openAppend } from "../../src/cli/commands/csv-import/append-file.ts";
import { keyrack, tempDir } from "../../harness/processes/cli.ts";

it("a closed pipe (`| head`) is not an error", async () => {
  const child = spawn(BIN, ["key", "--help"], { env: cleanEnv({}), stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  const errors = text(child.stderr);
  const [code] = (await once(child, "close")) as [number];
  expect([code, await errors]).toEqual([0, ""]);
});

it("a server continues when its log cannot be written", async () => {
  const full = openSync("/dev/full", "w");
  using temp = tempDir();
  const args = ["serve", "--json", "--port", "0", "--data-dir", temp.dir];
  const child = spawn(BIN, args, { env: cleanEnv({}), stdio: ["ignore", "pipe", full] });
  closeSync(full);
  try {
    const [line] = (await once(createInterface({ input: child.stdout as Readable }), "line")) as [string];
    const { url } = JSON.parse(line) as { url: string };
    // Each of these is rejected, and each rejection is a line of the log.
    for (let i = 0; i < 5; i++) expect((await fetch(`${url}/v1/workspace`)).status).toBe(401);
  } finally {
    child.kill("SIGTERM");
  }
  const [code] = (await once(child, "exit")) as [number];
  expect(code).toBe(0);
});

it("a 200 of another server is an error, and its body is not printed as JSON", async () => {
  const server = createServer((_req, res) => res.end("<html>"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const at = ["--url", `http://127.0.0.1:${(server.address() as AddressInfo).port}`, "--secret-key", "krsk_x"];
  try {
    for (const args of [["whoami"], ["key", "list"]]) {
      const ran = await keyrack([...args, "--json", ...at]);
      expect(ran).toMatchObject({ code: 1, stdout: "" });
      expect(ran.stderr).toMatch(/^keyrack: Unexpected response \(HTTP 200\): this is not a Keyrack server\..*\n$/);
    }
  } finally {
    server.close().closeAllConnections();
  }
});

it("an error message of a server cannot control the terminal", async () => {
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

it("files for secrets are readable by the owner only, even if they existed before", async () => {
  using temp = tempDir();
  const [toml, keys] = [join(temp.dir, "keyrack.toml"), join(temp.dir, "keys.csv")];
  for (const file of [toml, keys]) writeFileSync(file, "", { mode: 0o644 });
  const ran = await keyrack(["init", "--yes", "--force", "--out", toml, "--data-dir", join(temp.dir, "data")]);
  expect(ran.code, ran.stderr).toBe(0);
  openAppend(keys, "derived").close();
  for (const file of [toml, keys]) expect(statSync(file).mode & 0o777).toBe(0o600);
});
