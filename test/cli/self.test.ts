// `keyrack self rotate` when its response is lost: the new key can still be had.
import { expect, it } from "vitest";
import { keyrack } from "../../harness/processes/cli.ts";
import { scriptedServer, type Scripted } from "./scripted-server.ts";

const refusal = (status: number): Scripted => ({ status, json: { error: { code: "c", message: "Refused." } } });

it("self rotate sends an Idempotency-Key, and names it where the response may be lost", async () => {
  const seen = new Set<unknown>();
  const replies: Scripted[] = ["lost", refusal(503), refusal(409), { json: { key: "kr_live_new" } }];
  await using server = await scriptedServer(({ headers }) => {
    seen.add(headers["idempotency-key"]);
    return replies.shift() ?? "lost";
  });
  const env = { KEYRACK_URL: server.url, KEYRACK_API_KEY: "kr_live_x" };
  const rotate = (...args: string[]) => keyrack(["self", "rotate", "--quiet", ...args], { env });
  const lost = await rotate();
  const [, key = ""] = /--idempotency-key (\S+) /.exec(lost.stderr) ?? [];
  expect([lost.code, key === ""]).toEqual([3, false]);
  const busy = await rotate("--idempotency-key", key);
  expect([busy.code, busy.stderr.includes(`--idempotency-key ${key} `)]).toEqual([1, true]);
  const refused = await rotate("--idempotency-key", key);
  expect([refused.code, refused.stderr.includes(key)]).toEqual([1, false]);
  expect(await rotate("--idempotency-key", key)).toEqual({ code: 0, stdout: "kr_live_new\n", stderr: "" });
  expect([...seen]).toEqual([`"${key}"`]);
});
