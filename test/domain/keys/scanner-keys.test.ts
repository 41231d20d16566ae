// Loading the public keys of the secret scanner: over https, cached for an hour, reloaded at most once a minute.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { loadSettings } from "../../../src/config/load.ts";
import type { SettingName } from "../../../src/config/settings.ts";
import { fetchedKeys, parseKeyList, ScannerKeys, type KeyList } from "../../../src/domain/keys/scanner-keys.ts";
import { silentLog } from "../../../src/platform/log.ts";
import { startInstance } from "../../../src/server/start.ts";
import { tempDir } from "../../../harness/processes/cli.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { IDENTIFIER, keyList, signed } from "../../../harness/instances/scanner-keys.ts";

const BODY = Buffer.from("[]");
const MINUTE = 60_000;

/** Scanner keys loaded by `respond`. */
function keysFrom(respond: () => Promise<KeyList>) {
  const clock = testClock();
  let loads = 0;
  const load = (): Promise<KeyList> => {
    loads++;
    return respond();
  };
  const keys = new ScannerKeys({ clock, log: silentLog, load });
  const verify = (identifier = IDENTIFIER) => keys.verify(identifier, signed("[]"), BODY);
  return { clock, verify, loads: () => loads };
}

const unreachable = () => Promise.reject(new Error("ECONNREFUSED"));
const reachable = async () => parseKeyList(keyList());

describe("the scanner's public keys", () => {
  it("are fetched once an hour", async () => {
    const { clock, verify, loads } = keysFrom(reachable);
    expect(await Promise.all([verify(), verify(), verify()])).toEqual([true, true, true]);
    clock.advance(60 * MINUTE - 1);
    expect([await verify(), loads()]).toEqual([true, 1]);
    clock.advance(1);
    expect([await verify(), loads()]).toEqual([true, 2]);
  });

  it("are reloaded at most once a minute when reports name an unknown key", async () => {
    const { clock, verify, loads } = keysFrom(reachable);
    await verify();
    clock.advance(MINUTE);
    for (let i = 0; i < 5; i++) expect(await verify("unknown")).toBe(false);
    expect(loads()).toBe(2);
    clock.advance(MINUTE);
    expect([await verify("unknown"), loads()]).toEqual([false, 3]);
  });

  it("lead to a 503 when they cannot be loaded, not to a rejected signature", async () => {
    let respond = unreachable as () => Promise<KeyList>;
    const { clock, verify, loads } = keysFrom(() => respond());
    for (let i = 0; i < 3; i++) await expect(verify()).rejects.toMatchObject({ status: 503 });
    expect(loads()).toBe(1);
    respond = reachable;
    clock.advance(MINUTE);
    expect(await verify()).toBe(true);
    respond = unreachable;
    clock.advance(MINUTE);
    await expect(verify("unknown")).rejects.toMatchObject({ status: 503 });
    expect(await verify()).toBe(true); // a cached key needs no request
    clock.advance(60 * MINUTE);
    await expect(verify()).rejects.toMatchObject({ status: 503 });
  });

  it("include only supported keys, and at least one", () => {
    const rsa = { key_identifier: "rsa", key: "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n" };
    expect([...parseKeyList(keyList(rsa)).keys()]).toEqual([IDENTIFIER, "github-vector"]);
    for (const bad of ["{}", "[]", "null", "nonsense", '{"public_keys":[]}', '{"public_keys":[null,{"key":1}]}'])
      expect(() => parseKeyList(bad), bad).toThrow(Error);
  });

  it("are fetched without redirects, within five seconds and one megabyte", async () => {
    const seen: RequestInit[] = [];
    const publicAddress = async () => [{ address: "203.0.113.7", family: 4 }];
    const fetching = (response: Response) => async (_url: unknown, init?: RequestInit) => {
      seen.push(init ?? {});
      return response;
    };
    const load = (response: Response) =>
      fetchedKeys("https://scanner.example/keys", fetching(response), publicAddress)();
    expect((await load(new Response(keyList()))).has(IDENTIFIER)).toBe(true);
    expect(seen[0]).toMatchObject({ redirect: "error", signal: expect.any(AbortSignal) });
    await expect(load(new Response("no", { status: 500 }))).rejects.toThrow("500");
    await expect(load(new Response("x".repeat((1 << 20) + 1)))).rejects.toThrow("too long");
  });

  it("are given up when DNS does not respond in time", async () => {
    const over = vi.spyOn(AbortSignal, "timeout").mockImplementation(() => AbortSignal.abort());
    const request = async () => expect.unreachable("no request expected");
    const silent = () => new Promise<never>(() => {});
    await expect(fetchedKeys("https://scanner.example/keys", request, silent)()).rejects.toThrow("not found in time");
    expect(over).toHaveBeenCalledExactlyOnceWith(5_000);
    over.mockRestore();
  });

  for (const [where, address, family] of [
    ["the loopback address", "127.0.0.1", 4],
    ["the IPv6 loopback address", "::1", 6],
    ["an IPv4-mapped loopback address", "::ffff:127.0.0.1", 6],
    ["a private network (10/8)", "10.1.2.3", 4],
    ["a private network (172.16/12)", "172.31.255.1", 4],
    ["a private IPv6 network", "fd00::1", 6],
    ["the cloud metadata service", "169.254.169.254", 4],
    ["a link-local address", "fe80::1", 6],
  ] as const) {
    it(`are not fetched from ${where}, even if the name also has a public address`, async () => {
      const resolve = async () => [
        { address: "203.0.113.7", family: 4 },
        { address, family },
      ];
      const request = async () => expect.unreachable("no request expected");
      await expect(fetchedKeys("https://scanner.example/keys", request, resolve)()).rejects.toThrow("private");
    });
  }

  it("require https and a single source, and a file must be valid at start", async () => {
    using at = tempDir();
    const start = async (flags: Partial<Record<SettingName, string>>) => {
      const { settings } = loadSettings({ env: {}, flags: { data_dir: at.dir, port: "0", ...flags }, cwd: at.dir });
      return startInstance({ settings, log: silentLog });
    };
    const scanner_keys_url = "https://scanner.example/keys";
    await expect(start({ scanner_keys_url: "http://scanner.example/keys" })).rejects.toThrow("must be an https://");
    const scanner_keys_file = join(at.dir, "keys.json");
    await expect(start({ scanner_keys_url, scanner_keys_file })).rejects.toMatchObject({ exitCode: 2 });
    await expect(start({ scanner_keys_file })).rejects.toMatchObject({ exitCode: 2 });
    writeFileSync(scanner_keys_file, "{}");
    await expect(start({ scanner_keys_file })).rejects.toThrow("KEYRACK_SCANNER_KEYS_FILE cannot be used");
    writeFileSync(scanner_keys_file, keyList());
    await (await start({ scanner_keys_file })).stop();
  });
});
