// The READMEs of the example applications as written: their first block starts the example with a throwaway Keyrack,
// their second one calls it from another terminal.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { BIN, cleanEnv } from "../../harness/processes/server.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { readText, root } from "../../harness/repository.ts";
import { installSdk } from "../../harness/sdk/package.ts";

const RESPONSES = {
  "express-app": /"item":"book".*\{"orders":\[\{"id":1,/s,
  "hono-app": /^HTTP\/1\.1 200 .*^ratelimit: "minute";r=/ms,
  "fastify-idempotent-payments": /(idempotent-replayed: true.*){2}\{"charges":\[500\]\}/s,
};
const temp = tempDir();
const at = (...parts: string[]): string => join(temp.dir, ...parts);
afterAll(() => temp[Symbol.dispose]());

function link(target: string, path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(target, path);
}

/** What `npm install` does, without a registry. */
function install(name: string): void {
  cpSync(join(root, "examples", name), at(name), { recursive: true });
  const { dependencies } = JSON.parse(readFileSync(at(name, "package.json"), "utf8")) as { dependencies: object };
  for (const each of Object.keys(dependencies))
    link(each === "@keyrack/sdk" ? at("sdk") : join(root, "node_modules", each), at(name, "node_modules", each));
}

describe.runIf(hasTool("curl", "the READMEs of the examples"))("the README", () => {
  beforeAll(() => {
    link(installSdk(at("app")).built, at("sdk"));
    link(BIN, at("bin/keyrack"));
  });

  for (const [name, responses] of Object.entries(RESPONSES)) {
    it(`of ${name} starts it with a key that may only verify, and its requests are admitted`, async () => {
      install(name);
      const readme = readText(`examples/${name}/README.md`);
      const [command = "", requests = ""] = [...readme.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block);
      const started = command.replace(/^npm install --no-save --install-links \.\.\/\.\.\/dist\/sdk\n/, "exec ");
      expect(started).toMatch(/^exec keyrack ephemeral --seed -- .*\bKEYRACK_SECRET_KEY=\$KEYRACK_VERIFY_KEY /s);
      const child = spawn("sh", ["-c", started], {
        cwd: at(name),
        env: cleanEnv({ PATH: `${at("bin")}:${process.env["PATH"]}`, PORT: "0" }),
        stdio: ["ignore", "pipe", "inherit"],
      });
      const ended = once(child, "exit");
      try {
        let key = "";
        for await (const line of createInterface({ input: child.stdout })) {
          if (line.startsWith("KEY=")) key = line;
          const [, url] = /^listening on (.*)$/.exec(line) ?? [];
          if (url === undefined) continue;
          const sent = `${key}\n${requests.replaceAll("http://127.0.0.1:3000", url)}`;
          const send = (): string => execFileSync("sh", ["-ec", sent], { encoding: "utf8", stdio: "pipe" });
          // On a busy machine the first lease may come too late for its response.
          await expect.poll(send).toMatch(responses);
          return;
        }
        expect.unreachable("it ended before it listened");
      } finally {
        child.kill("SIGTERM");
        await ended;
      }
    });
  }
});
