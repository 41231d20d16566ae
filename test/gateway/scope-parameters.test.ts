// A misspelled scope in a proxy's configuration: it must not open the route to every valid key.
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Gateway, startGateway } from "../../src/gateway.ts";
import { type TestKeyrack, startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";

const MISSPELLED = ["scopes", "Scope", "scope_all", "scope-any", "scope[]", "scope%20", "SCOPE_ANY"];

let instance: TestKeyrack;
let gateway: Gateway;
let key: string;
let problems: string[];

beforeEach(async () => {
  problems = [];
  instance = await startTestKeyrack();
  ({ key } = instance.plane.mint({ scopes: ["a"] }));
  await instance.plane.feed.acknowledged(1);
  const { keyrack } = instance;
  const listener = { host: "127.0.0.1", port: 0, onInvalidScopes: (problem: string) => void problems.push(problem) };
  gateway = await startGateway({ keyrack, mode: "forward", limits: "check", ...listener });
});

afterEach(async () => {
  await gateway.stop();
  await instance[Symbol.asyncDispose]();
});

const ask = (path: string) => fetch(gateway.url + path, { headers: { "x-api-key": key } });

it.each(MISSPELLED)("%s is 400 and reported, alone and beside a scope that the key has", async (name) => {
  for (const path of [`/verify?${name}=a`, `/verify?scope=a&${name}=b&path=/x`]) {
    const response = await ask(path);
    expect(response.status, path).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "invalid_request" } });
    expect(response.headers.has("x-keyrack-key-id")).toBe(false);
  }
  expect(problems).toEqual(Array(2).fill(expect.stringContaining("Use scope or scope_any")));
});

it("what a client appends behind the path may have any name, as may other parameters of the proxy", async () => {
  for (const path of ["/verify?scope=a&path=/x?y=1&scopes=b", "/verify/x?scopes=b", "/verify?uri=1&scope=a"])
    expect((await ask(path)).status, path).toBe(200);
  expect(problems).toEqual([]);
});
