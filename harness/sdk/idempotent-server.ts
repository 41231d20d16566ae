// A test Keyrack with a minted key, and a server for the handlers that a test wraps with `idempotent`.

import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { until } from "../waiting.ts";
import { startTestKeyrack } from "./test-keyrack.ts";

/** `headers` carry the key and an Idempotency-Key; `verbs` are the idempotency calls so far. */
export async function startIdempotentServer(options: Parameters<typeof startTestKeyrack>[0] = {}) {
  const instance = await startTestKeyrack(options);
  const { key } = instance.plane.mint();
  await until(() => instance.keyrack.verify(key).ok);
  const closers: (() => void)[] = [];
  return {
    instance,
    headers: { authorization: `Bearer ${key}`, "idempotency-key": "k", "content-type": "application/json" },
    verbs: () => instance.plane.idempotency.calls.map(({ verb }) => verb),
    async serve(listener: RequestListener): Promise<string> {
      const server = createServer(listener);
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      closers.push(() => server.close().closeAllConnections());
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    },
    async [Symbol.asyncDispose]() {
      for (const close of closers) close();
      await instance[Symbol.asyncDispose]();
    },
  };
}
