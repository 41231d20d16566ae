// The curl line and the response in docs/gateway.md, for APIs that call the gateway themselves.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { hasTool } from "../../harness/processes/tools.ts";
import { readText } from "../../harness/repository.ts";
import { startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";
import { startGateway } from "../../src/gateway.ts";

const run = promisify(execFile);
const [, chapter = ""] = /^## From any language, without a proxy\n(.*?)^## /ms.exec(readText("docs/gateway.md")) ?? [];
const [command = "", response = ""] = Array.from(
  chapter.matchAll(/^```(?:sh)?\n(.*?)^```$/gms),
  ([, block = ""]) => block,
);

/** Without what differs from call to call. */
function normalized(text: string): string[] {
  const lines = text.replaceAll("\r", "").replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "UUID");
  return lines
    .replace(/^Date: .*$/m, "Date")
    .trim()
    .split("\n");
}

describe.runIf(hasTool("curl", "the documented call of the gateway"))("GET /verify as documented", () => {
  it("has the documented headers for an admitted key, and 403 for one without the scope", async () => {
    await using instance = await startTestKeyrack();
    const { keyrack, plane } = instance;
    const [reader, other] = [plane.mint({ scopes: ["orders:read"] }).key, plane.mint().key];
    await plane.feed.acknowledged(1);
    const listener = { host: "127.0.0.1", port: 0 };
    const gateway = await startGateway({ keyrack, mode: "forward", limits: "check", ...listener });
    try {
      const curl = async (key: string) => {
        const line = command.replace("curl ", "curl -s ").replace("http://127.0.0.1:4748", gateway.url);
        return (await run("sh", ["-c", line], { env: { ...process.env, KEY: key } })).stdout;
      };
      expect(normalized(await curl(reader))).toEqual(normalized(response));
      expect(await curl(other)).toMatch(/^HTTP\/1\.1 403 .*"insufficient_scope"/s);
    } finally {
      await gateway.stop();
    }
  });
});
