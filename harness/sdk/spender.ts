// A separate vendor process for tests that need several: sends requests of one key through `limits: "lease"` as fast as
// possible until the key is revoked, then prints when each was sent and admitted. Uses patientPorts, because a busy machine
// would exceed the 250 ms timeout and admit every request as degraded.

import { createKeyrackWith } from "../../src/sdk/keyrack.ts";
import { internalsOf } from "../../src/sdk/internals.ts";
import { pace, turns } from "../waiting.ts";
import { patientPorts } from "./ports.ts";

const { PLANE_URL = "", SECRET_KEY = "", PROJECT_ID = "", KEY = "" } = process.env;
// A policy that grows stale on a busy machine would count as degraded too.
const options = { url: PLANE_URL, secretKey: SECRET_KEY, projectId: PROJECT_ID, staleMs: 3_600_000 };
const keyrack = createKeyrackWith(options, patientPorts());
await keyrack.ready();
const guard = internalsOf(keyrack).guard({ limits: "lease" });
const incoming = { method: "GET", path: "/", authorization: `Bearer ${KEY}`, apiKey: null };
const realMs = (): number => performance.timeOrigin + performance.now();
const spent: [before: number, after: number][] = [];
let degraded = 0;
for (;;) {
  const before = realMs();
  const admitted = await guard.admit(null, incoming);
  if (admitted.denial?.status === 401) break;
  if (admitted.context?.degraded) degraded++;
  else if (!admitted.denial) spent.push([before, realMs()]);
  // Denials need no network: without a pause they would take the processor from the others.
  await (admitted.denial ? pace() : turns());
}
await keyrack.close();
process.stdout.write(JSON.stringify({ spent, degraded }));
