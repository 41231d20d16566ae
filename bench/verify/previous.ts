// verify() beside the library of the previous release, which gets its policy over HTTP, as it has no other way.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { earlierSdk } from "../../harness/sdk/earlier-sdk.ts";
import { turnsOf } from "./restrictions.ts";
import { holding, mint, OPTIONS, pagesOf } from "./world.ts";

const KEYS = 1e5;

export async function previousTurns(): Promise<{ ours: number[]; plain: number[] }> {
  const keys = Array.from({ length: KEYS }, mint);
  const pages = [...pagesOf(keys)];
  const unsent = pages.values();
  // Polls wait until the end.
  const server = createServer((request, response) => {
    if (request.url?.includes("/v1/policy/snapshot")) response.end(unsent.next().value);
    else if (request.url?.includes("leaving")) response.end("{}");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const earlier = await earlierSdk();
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const previous = earlier.createKeyrack({ ...OPTIONS, url, log: () => {} });
    await previous.ready();
    const side = { keys, addresses: [] };
    return await turnsOf({ ...side, keyrack: await holding(pages) }, { ...side, keyrack: previous });
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
