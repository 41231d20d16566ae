// A page with one heading and one script that fills it: what any page costs a browser.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const PAGE =
  '<!doctype html><html lang="en"><title>Blank</title><body><script src="/script.js"></script></body></html>';
const SCRIPT = 'document.body.append(Object.assign(document.createElement("h1"), { textContent: "Blank" }));';

const server = createServer((req, res) => {
  const isScript = req.url === "/script.js";
  res.setHeader("content-type", isScript ? "text/javascript" : "text/html");
  res.end(isScript ? SCRIPT : PAGE);
});
server.listen(0, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
});
process.on("SIGTERM", () => process.exit(0));
