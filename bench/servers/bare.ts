// The limit of the hot endpoints: bare node:http that responds to a GET with 304 and to a POST with its own body.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const server = createServer((req, res) => {
  if (req.method === "GET") {
    res.writeHead(304, { etag: 'W/"1"' });
    res.end();
    return;
  }
  const chunks: Buffer[] = [];
  req.on("data", (chunk: Buffer) => chunks.push(chunk));
  req.on("end", () => {
    const body = Buffer.concat(chunks);
    res.writeHead(200, { "content-type": "application/json", "content-length": body.length });
    res.end(body);
  });
});
server.listen(0, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/#${process.pid}`); // the process id, to read its CPU time
});
