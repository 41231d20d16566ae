// Serves the files of a folder over https, by their names alone. A thread of its own, because scripts that download
// from it run synchronously.
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { basename, join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";

const { folder, cert, key } = workerData as { folder: string; cert: string; key: string };
const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) => {
  const file = join(folder, basename(request.url ?? ""));
  if (existsSync(file)) response.end(readFileSync(file));
  else response.writeHead(404).end();
});
server.listen(0, "127.0.0.1", () => parentPort?.postMessage((server.address() as AddressInfo).port, []));
