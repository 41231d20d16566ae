// Where the scanner's public keys come from: fetched over https, kept for an hour, asked for again at most once a minute.
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
import { IDENTIFIER, keyList, signed } from "../../../harness/instances/scanner.ts";

const BODY = Buffer.from("[]");
const MINUTE = 60_000;

/** Keys behind an address that is asked through `answer`. */
function keysFrom(answer: () => Promise<KeyList>) {
  const clock = testClock();
  let asked = 0;
  const load = (): Promise<KeyList> => {
    asked++;
    return answer();
  };
  const keys = new ScannerKeys({ clock, log: silentLog, load });
  const ask = (identifier = IDENTIFIER) => keys.verify(identifier, signed("[]"), BODY);
  return { clock, ask, asked: () => asked };
}

const away = () => Promise.reject(new Error("ECONNREFUSED"));
const there = async () => parseKeyList(keyList());

describe("the scanner's public keys", () => {
  it("are fetched once an hour", async () => {
    const { clock, ask, asked } = keysFrom(there);
    expect(await Promise.all([ask(), ask(), ask()])).toEqual([true, true, true]);
    clock.advance(60 * MINUTE - 1);
    expect([await ask(), asked()]).toEqual([true, 1]);
    clock.advance(1);
    expect([await ask(), asked()]).toEqual([true, 2]);
  });

  it("are asked for again at most once a minute when a report names an unknown one", async () => {
    const { clock, ask, asked } = keysFrom(there);
    await ask();
    clock.advance(MINUTE);
    for (let i = 0; i < 5; i++) expect(await ask("unknown")).toBe(false);
    expect(asked()).toBe(2);
    clock.advance(MINUTE);
    expect([await ask("unknown"), asked()]).toEqual([false, 3]);
  });

  it("are our trouble when they cannot be had: 503, not a refused signature", async () => {
    let answer = away as () => Promise<KeyList>;
    const { clock, ask, asked } = keysFrom(() => answer());
    for (let i = 0; i < 3; i++) await expect(ask()).rejects.toMatchObject({ status: 503 });
    expect(asked()).toBe(1);
    answer = there;
    clock.advance(MINUTE);
    expect(await ask()).toBe(true);
    answer = away;
    clock.advance(MINUTE);
    await expect(ask("unknown")).rejects.toMatchObject({ status: 503 });
    expect(await ask()).toBe(true); // a key that is known needs no address
    clock.advance(60 * MINUTE);
    await expect(ask()).rejects.toMatchObject({ status: 503 });
  });

  it("are only those that can be used, and at least one", () => {
    const rsa = { key_identifier: "rsa", key: "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n" };
    expect([...parseKeyList(keyList(rsa)).keys()]).toEqual([IDENTIFIER, "github-vector"]);
    for (const bad of ["{}", "[]", "null", "nonsense", '{"public_keys":[]}', '{"public_keys":[null,{"key":1}]}'])
      expect(() => parseKeyList(bad), bad).toThrow(Error);
  });

  it("are asked for without following redirects, for five seconds and a megabyte at most", async () => {
    const seen: RequestInit[] = [];
    const outside = async () => [{ address: "203.0.113.7", family: 4 }];
    const ask = (answer: Response) => async (_url: unknown, init?: RequestInit) => {
      seen.push(init ?? {});
      return answer;
    };
    const answering = (answer: Response) => fetchedKeys("https://scanner.example/keys", ask(answer), outside)();
    expect((await answering(new Response(keyList()))).has(IDENTIFIER)).toBe(true);
    expect(seen[0]).toMatchObject({ redirect: "error", signal: expect.any(AbortSignal) });
    await expect(answering(new Response("no", { status: 500 }))).rejects.toThrow("500");
    await expect(answering(new Response("x".repeat((1 << 20) + 1)))).rejects.toThrow("too long");
  });

  it("are not waited for when a name server does not answer", async () => {
    const over = vi.spyOn(AbortSignal, "timeout").mockImplementation(() => AbortSignal.abort());
    const ask = async () => expect.unreachable("it was asked");
    const silent = () => new Promise<never>(() => {});
    await expect(fetchedKeys("https://scanner.example/keys", ask, silent)()).rejects.toThrow("not found in time");
    expect(over).toHaveBeenCalledExactlyOnceWith(5_000);
    over.mockRestore();
  });

  for (const [where, address, family] of [
    ["this machine", "127.0.0.1", 4],
    ["this machine, by IPv6", "::1", 6],
    ["this machine, in disguise", "::ffff:127.0.0.1", 6],
    ["the inner network", "10.1.2.3", 4],
    ["the inner network's other part", "172.31.255.1", 4],
    ["the inner network, by IPv6", "fd00::1", 6],
    ["the cloud's own service", "169.254.169.254", 4],
    ["the link", "fe80::1", 6],
  ] as const) {
    it(`are not fetched from ${where}, even when one of its addresses is outside`, async () => {
      const resolve = async () => [
        { address: "203.0.113.7", family: 4 },
        { address, family },
      ];
      const ask = async () => expect.unreachable("it was asked");
      await expect(fetchedKeys("https://scanner.example/keys", ask, resolve)()).rejects.toThrow("private");
    });
  }

  it("come over https, from one place, and a file must be good at the start", async () => {
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
