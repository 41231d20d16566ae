// The recipes of docs/sdk-recipes.md as written, each in a process of its own, with the library bundled from its sources.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { get, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { build } from "esbuild";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { readText, root } from "../../harness/repository.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";

const PAGE = readText("docs/sdk.md");
const [, ...chapters] = readText("docs/sdk-recipes.md").split(/^## /m);
/** The code of each recipe by its title. */
const RECIPES = new Map(
  chapters.map((part) => {
    const [title = ""] = part.split("\n", 1);
    return [title, Array.from(part.matchAll(/^```js\n(.*?)^```$/gms), ([, code = ""]) => code)];
  }),
);
/** What the quick start begins with. */
const [made = ""] = /^const keyrack = .*?\.ready\(\);/ms.exec(PAGE) ?? [];
const KEYRACK = `import { createKeyrack } from "@keyrack/sdk";\n${made}\n`;
const folder = mkdtempSync(join(tmpdir(), "keyrack-recipes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// Bundled, because a process that reads the sources itself takes a second to start.
const built = (entry: string): string => join(folder, `sdk/${entry}.js`);
beforeAll(() =>
  build({
    entryPoints: [
      join(root, "src/sdk/index.ts"),
      ...["express", "fastify", "hono", "fetch"].map((name) => join(root, `src/sdk/adapters/${name}.ts`)),
    ],
    outdir: join(folder, "sdk"),
    entryNames: "[name]",
    bundle: true,
    format: "esm",
    target: "es2024",
    logLevel: "silent",
  }),
);

let plane: FakeControlPlane;
let key: string;
const started: ChildProcess[] = [];

beforeEach(async () => {
  plane = await FakeControlPlane.start();
  ({ key } = plane.mint({ scopes: ["orders:read"] }));
});

afterEach(async () => {
  for (const child of started.splice(0)) {
    if (child.exitCode !== null) continue;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  await plane[Symbol.asyncDispose]();
});

/** A bare import resolves from the repository, one of the library to its sources. */
function resolved(code: string): string {
  return code.replaceAll(/ from "([^".]+)"/g, (_, name: string) => {
    const [, entry] = /^@keyrack\/sdk(?:\/(\w+))?$/.exec(name) ?? [];
    if (name === "@keyrack/sdk") return ` from "${built("index")}"`;
    return ` from "${entry ? built(entry) : import.meta.resolve(name)}"`;
  });
}

function write(name: string, code: string): string {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, resolved(code));
  return file;
}

/** Runs a file and returns the first line that it prints. */
async function run(file: string, env: Record<string, string> = {}) {
  const { url, secretKey, projectId } = plane;
  const where = { KEYRACK_URL: url, KEYRACK_SECRET_KEY: secretKey, KEYRACK_PROJECT_ID: projectId };
  const child = spawn(process.execPath, [file], {
    env: { PATH: process.env["PATH"], KEY: key, ...where, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  started.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async () => String((await lines.next()).value);
  return { child, line: await nextLine(), nextLine };
}

const codeOf = (title: string): string => {
  const [code] = RECIPES.get(title) ?? [];
  if (code === undefined) throw new Error(`docs/sdk-recipes.md has no recipe "${title}"`);
  return code;
};
const headers = () => ({ "x-api-key": key });
const LISTEN = "app.listen(0, '127.0.0.1', function () { console.log('http://127.0.0.1:' + this.address().port); });";

function writeNext(library = (source: string) => source): void {
  const [module = "", route = ""] = RECIPES.get("Next.js") ?? [];
  write("lib/keyrack.js", library(module));
  write("package.json", '{ "type": "module" }');
  for (const name of ["app/orders/route.js", "app/again/route.js"]) write(name, route);
}

it("every recipe is tested here", () => {
  const titles = [...RECIPES.keys()];
  const tested = readText("test/sdk/recipes.test.ts");
  expect(titles.filter((title) => !tested.includes(`"${title}"`))).toEqual([]);
  expect(titles).toHaveLength(7);
});

describe("the recipe", () => {
  it("for a public route leaves out two routes and no other", async () => {
    const { line } = await run(write("public.mjs", KEYRACK + codeOf("A public route") + LISTEN));
    const status = async (path: string, more = {}) => (await fetch(line + path, { headers: more })).status;
    expect([await status("/pricing"), await status("/docs"), await status("/orders")]).toEqual([200, 200, 401]);
    expect([await status("/orders", headers()), await status("/docs/x")]).toEqual([200, 401]);
  });

  it("for a body of 401 changes those of protect only", async () => {
    const own = `app.get("/own", { onRequest: protect(keyrack) }, (request, reply) => reply.code(401).send("mine"));
      console.log(await app.listen({ port: 0, host: "127.0.0.1" }));`;
    const { line } = await run(write("body.mjs", KEYRACK + codeOf("Your own body for 401") + own));
    const refused = await fetch(`${line}/orders`);
    expect([refused.status, refused.headers.get("content-type")]).toEqual([401, "application/problem+json"]);
    expect(await refused.json()).toEqual({ title: "Send a valid API key.", status: 401, code: "missing_key" });
    expect(refused.headers.has("www-authenticate")).toBe(true);
    const admitted = await fetch(`${line}/orders`, { headers: headers() });
    expect([admitted.status, await admitted.json()]).toEqual([200, { tenant: plane.tenantId }]);
    expect(await (await fetch(`${line}/own`, { headers: headers() })).text()).toBe("mine");
  });

  it("for tests of handlers needs no Keyrack", async () => {
    const tail = "console.log(response.status, await response.text());";
    const { line } = await run(write("test.mjs", codeOf("Test your handlers without Keyrack") + tail));
    expect(line).toBe('200 {"tenant":"tenant-1"}');
    expect(plane.seen).toEqual([]);
  });

  it.each([
    [
      "Stop gracefully: Fastify",
      'app.get("/slow", { onRequest: protect(keyrack) }, async () => { await signalled(); return {}; });',
      "console.log('http://127.0.0.1:' + app.server.address().port);",
    ],
    [
      "Stop gracefully: Hono",
      'app.get("/slow", protect(keyrack), async (c) => { await signalled(); return c.json({}); });',
      "await server.ready(); console.log(server.url.replace(/\\/$/, ''));",
    ],
  ])("%s completes a request in flight, sends its event, deregisters and exits", async (title, route, tail) => {
    const signalled = `const signalled = () => new Promise((resolve) => {
      process.once("SIGTERM", () => setImmediate(resolve));
      console.log("in flight");
    });\n`;
    const code = codeOf(title)
      .replace("port: 3000", 'port: 0, host: "127.0.0.1", hostname: "127.0.0.1", silent: true')
      .replace('app.get("/orders"', `${route}\napp.get("/orders"`);
    const { child, line, nextLine } = await run(write("stop.mjs", KEYRACK + signalled + code + tail));
    // Not kept alive: a server waits for such connections until its keepAliveTimeout, in Fastify 72 s.
    const response = once(get(`${line}/slow`, { headers: headers(), agent: false }), "response");
    expect(await nextLine()).toBe("in flight");
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    const [{ statusCode }] = (await response) as [IncomingMessage];
    expect(statusCode).toBe(200);
    expect(await exited).toEqual([0, null]);
    expect([plane.ingest.events.length, plane.feed.nodes.size]).toEqual([1, 0]);
  });

  it("for a health check is 200 with a policy, and 503 without", async () => {
    const code = codeOf("A health check");
    const { line } = await run(write("health.mjs", KEYRACK + code + LISTEN));
    const response = await fetch(`${line}/health`);
    expect([response.status, await response.json()]).toMatchObject([200, { degraded: false }]);
    const early = KEYRACK.replace("await keyrack.ready();", "");
    const other = await run(write("early.mjs", early + code + LISTEN), { KEYRACK_URL: "http://127.0.0.1:1" });
    expect((await fetch(`${other.line}/health`)).status).toBe(503);
  });

  it("for Next.js makes nothing while it is imported, and one instance for two copies of a route", async () => {
    writeNext();
    const main = `const routes = [await import("./app/orders/route.js"), await import("./app/again/route.js")];
      const made = "keyrack" in globalThis;
      const request = () => new Request("http://x/", { headers: { "x-api-key": process.env.KEY } });
      const statuses = await Promise.all([...routes, ...routes].map(async ({ GET }) => (await GET(request())).status));
      console.log(JSON.stringify([made, statuses]));`;
    const { line } = await run(write("next.mjs", main));
    expect(JSON.parse(line)).toEqual([false, [200, 200, 200, 200]]);
    expect(new Set(plane.seen.map(({ query }) => query.get("node")).filter(Boolean)).size).toBe(1);
  });

  it("for Next.js responds while Keyrack is down at the start, and admits keys when it is back", async () => {
    writeNext((library) => library.replace("timeoutMs: 3000", "timeoutMs: 20"));
    const main = `const { GET } = await import("./app/orders/route.js");
      const status = async () => (await GET(new Request("http://x/", { headers: { "x-api-key": process.env.KEY } }))).status;
      console.log(await status());
      await globalThis.keyrack.ready();
      console.log(await status());`;
    plane.injectFault = () => ({ status: 503 });
    const { line, nextLine } = await run(write("down.mjs", main));
    plane.injectFault = () => undefined;
    expect([line, await nextLine()]).toEqual(["503", "200"]);
  });
});
