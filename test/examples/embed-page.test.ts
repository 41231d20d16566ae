// The embed example runs as its README says, and its page works in a browser.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { hasBrowser, sharedBrowser, visit } from "../../harness/browser/browser.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { cleanEnv } from "../../harness/processes/server.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

describe("examples/embed-page", () => {
  it("has a backend of at most 40 lines", () => {
    expect(readFileSync(`${root}examples/embed-page/server.mjs`, "utf8").trim().split("\n").length).toBeLessThanOrEqual(
      40,
    );
  });

  it("is started as its README says", () => {
    const readme = readFileSync(`${root}examples/embed-page/README.md`, "utf8");
    expect(readme).toContain("bin/keyrack ephemeral --seed -- node examples/embed-page/server.mjs");
  });

  it("mints tokens and shows the portal", async () => {
    const args = ["ephemeral", "--seed", "--", "node", "examples/embed-page/server.mjs"];
    const child = spawn("bin/keyrack", args, {
      cwd: root,
      env: { ...process.env, PORT: "0" },
      stdio: ["ignore", "pipe", "ignore"],
    });
    const ended = once(child, "exit");
    try {
      const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
      const url = String(value).replace("Open ", "");
      const minted = await fetch(`${url}/embed-token`, { method: "POST" });
      expect(await minted.json()).toMatchObject({ object: "embed_token", expires_in: 300, audience: [url] });
      if (!hasBrowser) return;
      await using v = await visit(await sharedBrowser(), url);
      await v.page.getByText("No keys yet").waitFor();
      expect(v.errors.filter((text) => !text.includes("404"))).toEqual([]);
    } finally {
      child.kill("SIGTERM");
      await ended;
    }
  });

  it("changes no origins of a Keyrack that is not its own, and responds 502 if it gets no token", async () => {
    await using instance = await testInstance("sqlite");
    const workspace = await instance.workspace();
    const stored = ["https://app.example.com"];
    await workspace.call("sk_owner", "PATCH /v1/workspace", { embed_origins: stored });
    const env = cleanEnv({
      PORT: "0",
      KEYRACK_URL: instance.url,
      KEYRACK_SECRET_KEY: "krsk_live_not-valid",
      KEYRACK_PROJECT_ID: workspace.project_id,
      KEYRACK_TENANT_ID: workspace.tenant_id,
    });
    const child = spawn("node", ["examples/embed-page/server.mjs"], {
      cwd: root,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const ended = once(child, "exit");
    try {
      const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
      const response = await fetch(`${String(value).replace("Open ", "")}/embed-token`, { method: "POST" });
      expect(response.status).toBe(502);
      expect((await workspace.call("sk_owner", "GET /v1/workspace")).body).toMatchObject({ embed_origins: stored });
    } finally {
      child.kill("SIGTERM");
      await ended;
    }
  });
});
