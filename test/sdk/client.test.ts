// Calls to the control plane: why one that gets no response has failed.

import { expect, it } from "vitest";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { Client } from "../../src/sdk/client.ts";
import { readOptions } from "../../src/sdk/options.ts";
import { defaultPorts, type Ports } from "../../src/sdk/runtime.ts";

const { secretKey, projectId } = new FakeControlPlane();
const fetchThat = (reject: unknown): Ports => ({ ...defaultPorts(), fetch: () => Promise.reject(reject) });
const cause = Object.assign(new Error("connect ECONNREFUSED ::1:4747"), { code: "ECONNREFUSED" });

it.each([
  ["a port that fetch blocks", "http://127.0.0.1:6000", defaultPorts(), "Cannot be reached: bad port."],
  [
    "a code of the system",
    "http://x",
    fetchThat(new TypeError("fetch failed", { cause })),
    "Cannot be reached: ECONNREFUSED.",
  ],
  [
    "an error that quotes the secret key",
    "http://x",
    fetchThat(new TypeError(`invalid header ${secretKey}`)),
    "Cannot be reached: invalid header kr_redacted.",
  ],
  ["an error without a text", "http://x", fetchThat(null), "Cannot be reached."],
])("a call names the cause of its failure: %s", async (_, url, ports, message) => {
  const client = new Client(readOptions({ url, secretKey, projectId }), ports);
  const call = client.call({ method: "GET", path: "/v1/policy/delta", timeoutMs: 5000 });
  await expect(call).rejects.toMatchObject({ name: "CallError", fault: "network", message });
});
