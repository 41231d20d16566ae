// One node of the fleet: a process that verifies a key with the SDK all the time. Arguments come as JSON in argv[2]. It
// prints "ready" when it admits the key, and on any line of input when it last admitted the key and whether it still
// does.
import { createInterface } from "node:readline";
import { createKeyrack } from "../src/sdk/index.ts";

type Args = { url: string; secretKey: string; projectId: string; nodeId: string; key: string };

const { key, ...options } = JSON.parse(process.argv[2] ?? "{}") as Args;
const LOOK_EVERY_MS = 2;

const keyrack = createKeyrack(options);
await keyrack.ready();
let lastAdmittedAt = 0;
const look = (): boolean => {
  const { ok } = keyrack.verify(key);
  if (ok) lastAdmittedAt = Date.now();
  return ok;
};
console.log(look() ? "ready" : "the key is not known here");
const looking = setInterval(look, LOOK_EVERY_MS);
createInterface({ input: process.stdin })
  .on("line", () => console.log(JSON.stringify({ admits: look(), lastAdmittedAt })))
  .on("close", () => {
    clearInterval(looking);
    void keyrack.close();
  });
