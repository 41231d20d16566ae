// The quick start of docs/api.md, run as written against a new server.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { startServer } from "../../harness/processes/server.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { readText } from "../../harness/repository.ts";

const canRun = hasTool("curl", "the quick start of docs/api.md") && hasTool("jq", "the quick start of docs/api.md");

it.runIf(canRun)("creates a workspace, a project, a tenant and a key, and revokes it", async () => {
  using temp = tempDir();
  const [, block = ""] = /^## Quick start\n[\s\S]*?^```sh\n([\s\S]*?)^```$/m.exec(readText("docs/api.md")) ?? [];
  const server = await startServer(["--data-dir", join(temp.dir, "keyrack-data")]);
  try {
    const script = block.replace("http://127.0.0.1:4747", server.ready.url);
    expect(script === block).toBe(false);
    const output = execFileSync("sh", ["-euc", script], { cwd: temp.dir, encoding: "utf8" });
    const [key = "", ...revoked] = output.split("\n");
    expect(key).toMatch(/^kr_live_/);
    const { id } = JSON.parse(readFileSync(join(temp.dir, "key.json"), "utf8")) as { id: string };
    expect(JSON.parse(revoked.join("\n"))).toMatchObject({ id, revoked_at: expect.any(String) });
  } finally {
    await server.end("SIGTERM");
  }
});
