// Loading the public keys of the secret scanner: over https, cached for an hour, reloaded at most once a minute.
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { loadSettings } from "../../../src/config/load.ts";
import type { SettingName } from "../../../src/config/settings.ts";
import {
  fetchedKeys,
  parseKeyList,
  ScannerKeys,
  type Get,
  type KeyList,
} from "../../../src/domain/leaks/scanner-keys.ts";
import { getText } from "../../../src/platform/https.ts";
import { silentLog } from "../../../src/platform/log.ts";
import { startInstance } from "../../../src/server/start.ts";
import { makeCertificate } from "../../../harness/processes/certificate.ts";
import { tempDir } from "../../../harness/processes/cli.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { IDENTIFIER, keyList, signed } from "../../../harness/instances/scanner-keys.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

const BODY = Buffer.from("[]");

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
    clock.advance(60 * MINUTE_MS - 1);
    expect([await verify(), loads()]).toEqual([true, 1]);
    clock.advance(1);
    expect([await verify(), loads()]).toEqual([true, 2]);
  });

  it("are reloaded at most once a minute when reports name an unknown key", async () => {
    const { clock, verify, loads } = keysFrom(reachable);
    await verify();
    clock.advance(MINUTE_MS);
    for (let i = 0; i < 5; i++) expect(await verify("unknown")).toBe(false);
    expect(loads()).toBe(2);
    clock.advance(MINUTE_MS);
    expect([await verify("unknown"), loads()]).toEqual([false, 3]);
  });

  it("lead to a 503 when they cannot be loaded, not to a rejected signature", async () => {
    let respond = unreachable as () => Promise<KeyList>;
    const { clock, verify, loads } = keysFrom(() => respond());
    for (let i = 0; i < 3; i++) await expect(verify()).rejects.toMatchObject({ status: 503 });
    expect(loads()).toBe(1);
    respond = reachable;
    clock.advance(MINUTE_MS);
    expect(await verify()).toBe(true);
    respond = unreachable;
    clock.advance(MINUTE_MS);
    await expect(verify("unknown")).rejects.toMatchObject({ status: 503 });
    expect(await verify()).toBe(true); // a cached key needs no request
    clock.advance(60 * MINUTE_MS);
    await expect(verify()).rejects.toMatchObject({ status: 503 });
  });

  it("include only supported keys, and at least one", () => {
    const rsa = { key_identifier: "rsa", key: "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n" };
    expect([...parseKeyList(keyList(rsa)).keys()]).toEqual([IDENTIFIER, "github-vector"]);
    for (const bad of ["{}", "[]", "null", "nonsense", '{"public_keys":[]}', '{"public_keys":[null,{"key":1}]}'])
      expect(() => parseKeyList(bad), bad).toThrow(Error);
  });

  it("are parsed of lists of up to a hundred only: each key takes time of the event loop", () => {
    const listOf = (length: number): string =>
      keyList(...Array.from({ length: length - 2 }, (_, n) => ({ key_identifier: `k${n}`, key: "x" })));
    expect(parseKeyList(listOf(100)).size).toBe(2);
    expect(() => parseKeyList(listOf(101))).toThrow("it lists more than 100 keys");
  });

  it("are fetched from the addresses that were checked, without redirects, within one megabyte", async () => {
    using at = tempDir();
    const { cert, key } = makeCertificate(at.dir, "scanner", "scanner.example");
    const responses: [number, string][] = [
      [200, keyList()],
      [302, keyList()],
      [500, "no"],
      [200, "x".repeat((1 << 20) + 1)],
    ];
    const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (_req, res) => {
      const [status, text] = responses.shift() ?? [404, ""];
      res.writeHead(status, { location: "https://127.0.0.1/" }).end(text);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    // The certificate names the address; a name that DNS does not know shows that it is not resolved again.
    const ca = readFileSync(cert);
    const checkServerIdentity = () => undefined;
    const vetted = [{ address: "127.0.0.1", family: 4 }];
    const get = () =>
      getText(`https://scanner.invalid:${port}/keys`, vetted, new AbortController().signal, {
        ca,
        checkServerIdentity,
      } as never);
    expect(parseKeyList(await get()).has(IDENTIFIER)).toBe(true);
    await expect(get()).rejects.toThrow("302");
    await expect(get()).rejects.toThrow("500");
    await expect(get()).rejects.toThrow("too long");
    server.close();
    server.closeAllConnections();
  });

  it("are requested with all addresses of the name, which is resolved once", async () => {
    const resolved: string[] = [];
    const addresses = [
      { address: "93.184.216.34", family: 4 },
      { address: "2606:2800:220:1::1", family: 6 },
    ];
    const resolve = async (host: string) => {
      resolved.push(host);
      return addresses;
    };
    const get: Get = async (_url, given) => {
      expect(given).toEqual(addresses);
      return keyList();
    };
    expect((await fetchedKeys("https://scanner.example/keys", get, resolve)()).has(IDENTIFIER)).toBe(true);
    expect(resolved).toEqual(["scanner.example"]);
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
        { address: "93.184.216.34", family: 4 },
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
