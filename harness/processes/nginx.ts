// Debian's nginx with its own folder, stopped by its process id. Its configuration is the example's file, with the
// three addresses replaced. It cannot choose a port by itself, so it listens on a Unix socket behind one.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { skipOrFail } from "./tools.ts";
import { stableAddress } from "./stable-address.ts";
import { until } from "../waiting.ts";

const NGINX = "/usr/sbin/nginx";

/** Its version, for `describe.runIf`. Null after a warning when it is not installed; throws when it is required. */
export const nginxVersion: string | null = findNginx();

function findNginx(): string | null {
  // It prints its version to stderr.
  if (existsSync(NGINX)) return execFileSync("sh", ["-c", `${NGINX} -v 2>&1`], { encoding: "utf8" }).trim();
  skipOrFail("nginx", "the gateway behind nginx");
  return null;
}

export type Nginx = AsyncDisposable & { url: string };

/**
 * `listens` is nginx's own address in the example's file, `addresses` maps others to their replacement. Each must occur
 * exactly once.
 */
export async function startNginx(
  dir: string,
  example: string,
  listens: string,
  addresses: Record<string, string>,
): Promise<Nginx> {
  const socket = join(dir, "nginx.sock");
  mkdirSync(join(dir, "temp"), { recursive: true });
  let site = readFileSync(example, "utf8");
  for (const [written, used] of Object.entries({ ...addresses, [listens]: `unix:${socket}` })) {
    const parts = site.split(written);
    if (parts.length !== 2) throw new Error(`${example} names ${written} ${parts.length - 1} times`);
    site = parts.join(used);
  }
  writeFileSync(join(dir, "site.conf"), site);
  const temps = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path temp/${name};`);
  writeFileSync(
    join(dir, "nginx.conf"),
    `daemon off; master_process off; pid nginx.pid; error_log error.log;
     events {}
     http { access_log off; ${temps.join(" ")} include site.conf; }`,
  );
  const child = spawn(NGINX, ["-p", dir, "-c", "nginx.conf", "-e", "error.log"], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const ended = once(child, "exit");
  const address = await stableAddress();
  address.target = socket;
  const url = `${address.url}/`;
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`nginx ended: ${readFileSync(join(dir, "error.log"), "utf8")}`);
    return fetch(url).then(
      () => true,
      () => false,
    );
  });
  return {
    url,
    [Symbol.asyncDispose]: async () => {
      await address[Symbol.asyncDispose]();
      child.kill("SIGTERM");
      await ended;
    },
  };
}
