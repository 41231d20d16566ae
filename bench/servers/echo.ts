// The limit of ratelimit/check: bare node:http that reads a JSON body and sends a response of a check's size.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const ANSWER = JSON.stringify({
  object: "ratelimit_result",
  allowed: true,
  limited_policy: null,
  retry_after_seconds: null,
  store: "memory",
  policies: [{ id: "per-minute", limit: 1_000_000_000, window_ms: 60_000, remaining: 999_999_999, reset_ms: 60_999 }],
});

const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on("data", (chunk: Buffer) => chunks.push(chunk));
  req.on("end", () => {
    JSON.parse(Buffer.concat(chunks).toString("utf8"));
    res.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(ANSWER) });
    res.end(ANSWER);
  });
});
server.listen(0, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
