// The peer of ordinary endpoints: h3's POST echo and tiny GET on node:http, as in its documentation.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { H3 } from "h3";
import { toNodeHandler } from "srvx/node";

const app = new H3();
app.post("/echo", async (event) => JSON.parse(await event.req.text()) as object);
app.get("/tiny/:id", (event) => ({ object: "tiny", id: event.context.params?.id ?? "" }));
const server = createServer(toNodeHandler((request) => app.fetch(request)) as Parameters<typeof createServer>[1]);
server.listen(0, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
