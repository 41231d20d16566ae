// Addresses and networks: one canonical text for each network, and nothing that could widen a list by mistake.
import { BlockList, isIP } from "node:net";
import { describe, expect, it } from "vitest";
import { seeded } from "../../../harness/random.ts";
import { NOT_AN_ADDRESS, readAddress, readBareAddress } from "../../../src/kernel/network/address.ts";
import { AddressList } from "../../../src/kernel/network/address-list.ts";
import {
  canonicalCidrs,
  cidrProblems,
  isShownNetwork,
  networkOfAddress,
  parseSettingNetwork,
} from "../../../src/kernel/network/cidr.ts";

describe("a network", () => {
  it.each([
    ["203.0.113.7", "203.0.113.7/32"],
    ["10.0.0.0/8", "10.0.0.0/8"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["255.255.255.255/32", "255.255.255.255/32"],
    ["::", "::/128"],
    ["::/0", "::/0"],
    ["2001:DB8::/32", "2001:db8::/32"],
    ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1/128"],
    ["2001:0db8:0000:0001:0001:0001:0001:0001", "2001:db8:0:1:1:1:1:1/128"],
    ["1:0:0:2:0:0:0:3", "1:0:0:2::3/128"],
    ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0/128"],
    ["::1.2.3.4", "::102:304/128"],
    ["::ffff:1.2.3.0/120", "1.2.3.0/24"],
    ["::FFFF:102:304", "1.2.3.4/32"],
    ["::ffff:0:0/96", "0.0.0.0/0"],
    ["64:ff9b::1.2.3.4", "64:ff9b::102:304/128"],
  ])("%s is stored as %s", (text, canonical) => {
    expect([cidrProblems([text]), canonicalCidrs([text]), canonicalCidrs([canonical])]).toEqual([
      [],
      [canonical],
      [canonical],
    ]);
  });

  it.each([
    ["10.1.2.3/8", "bits set beyond"],
    ["2001:db8::1/32", "bits set beyond"],
    ["0.0.0.1/0", "bits set beyond"],
    ["010.0.0.1", "must be an IPv4"],
    ["10.0.0.00", "must be an IPv4"],
    ["10.0.1", "must be an IPv4"],
    ["1.2.3.4.5", "must be an IPv4"],
    ["1..3.4", "must be an IPv4"],
    ["256.0.0.1", "must be an IPv4"],
    ["1.2.3.4:80", "must be an IPv4"],
    ["[::1]", "must be an IPv4"],
    ["fe80::1%eth0", "must be an IPv4"],
    ["1::2::3", "must be an IPv4"],
    [":1::", "must be an IPv4"],
    ["1:2:3:4:5:6:7", "must be an IPv4"],
    ["1:2:3:4:5:6:7:8:9", "must be an IPv4"],
    ["1:2:3:4:5:6:7:8::", "must be an IPv4"],
    ["12345::", "must be an IPv4"],
    ["::g", "must be an IPv4"],
    ["1:2:3:4:5:6:7:1.2.3.4", "must be an IPv4"],
    ["::1.2.3.04", "must be an IPv4"],
    [" 10.0.0.0/8", "must be an IPv4"],
    ["example.com", "must be an IPv4"],
    ["", "must be an IPv4"],
    ["10.0.0.0/8/8", "must be an IPv4"],
    ["10.0.0.0/33", "0 to 32 bits"],
    ["10.0.0.0/", "0 to 32 bits"],
    ["10.0.0.0/08", "0 to 32 bits"],
    ["10.0.0.0/+8", "0 to 32 bits"],
    ["::/129", "0 to 128 bits"],
    ["::ffff:0:0/95", "bits set beyond"],
    ["::ffff:1.2.3.4/90", "bits set beyond"],
    [`2001:db8::${"0".repeat(64)}`, "at most 64"],
  ])("%s is refused", (text, message) => {
    expect(cidrProblems(["10.0.0.0/8", text])).toEqual([{ index: 1, message: expect.stringContaining(message) }]);
  });

  it("is refused a second time, in whatever spelling", () => {
    const list = ["10.0.0.1", "::1", "::ffff:10.0.0.1", "0:0:0:0:0:0:0:1/128"];
    expect(cidrProblems(list)).toEqual([
      { index: 2, message: "repeats an entry" },
      { index: 3, message: "repeats an entry" },
    ]);
  });
});

describe("an address", () => {
  it.each([
    ["::ffff:203.0.113.9", "203.0.113.0/24"],
    ["::ffff:cb00:7109", "203.0.113.0/24"],
    ["203.0.113.9:8080", "203.0.113.0/24"],
    ["[2001:db8:1:2::1]:443", "2001:db8:1::/48"],
    ["[2001:db8:1:2::1]", "2001:db8:1::/48"],
    ["fe80::1%eth0", "fe80::/48"],
    ["[fe80::1%25eth0]:80", "fe80::/48"],
  ])("%s belongs to %s", (address, network) => {
    expect([networkOfAddress(address), isShownNetwork(network)]).toEqual([network, true]);
  });

  it("belongs to the only text of its network that is taken as one", () => {
    const random = seeded(7);
    const group = (): string => random.pick(["", "0", "00", "1", "f", "F", "ffff", "0db8", "db8", "10000", "g"]);
    const octet = (): string => random.pick(["0", "00", "01", "9", "10", "99", "199", "249", "255", "256", "-1", "x"]);
    const list = (piece: () => string, between: string, count: number): string =>
      Array.from({ length: count }, piece).join(between);
    const [shown, wrong] = [[] as string[], [] as string[]];
    for (let i = 0; i < 20_000; i++) {
      const v4 = list(octet, ".", random.int(2, 4)) + random.pick(["", ".0"]);
      const v6 = list(group, ":", random.int(0, 4)) + random.pick(["", "::", ":0:0:0:0:0", "::0", "::127.0.0.1"]);
      const address = random.pick([v4, v6]);
      const text = address + random.pick(["/24", "/48", "", "/024", "/25"]);
      const isShown = networkOfAddress(address) === text;
      if (isShown) shown.push(text);
      if (isShownNetwork(text) !== isShown) wrong.push(text);
    }
    expect(wrong).toEqual([]);
    expect(shown.length).toBeGreaterThan(100);
  });

  it.each([
    "",
    "unknown",
    "_hidden",
    "1.2.3.4%eth0",
    "fe80::1%",
    "[1.2.3.4]:80",
    "[::1",
    "::1]",
    "[::1]:",
    "1.2.3.4:",
    "1.2.3.4:123456",
    " 1.2.3.4",
    "1.2.3.4, 5.6.7.8",
    "0x7f.0.0.1",
    "2130706433",
  ])("%j is none", (text) => {
    expect([readAddress(text), networkOfAddress(text)]).toEqual([NOT_AN_ADDRESS, null]);
  });

  it("is read as Node reads it, whatever the text", () => {
    const { int, pick } = seeded(28);
    const parts = ["0", "1", "ff", "255", "256", ":", "::", ".", "db8", "2001", "1.2.3.4", "01", "g", "FFFF", ""];
    let addresses = 0;
    for (let i = 0; i < 20_000; i++) {
      const text = Array.from({ length: int(1, 15) }, () => pick(parts)).join(pick(["", ":", "."]));
      const family = isIP(text);
      if (family !== 0) addresses++;
      if (readBareAddress(text) !== family) expect([text, readBareAddress(text)]).toEqual([text, family]);
    }
    expect(addresses).toBeGreaterThan(100);
  });
});

describe("a list of networks", () => {
  const list = new AddressList(["10.0.0.0/8", "10.1.0.0/16", "203.0.113.7/32", "2001:db8::/32", "2001:db8:1::/48"]);

  it.each([
    ["10.255.255.255", true],
    ["10.1.2.3", true],
    ["11.0.0.0", false],
    ["9.255.255.255", false],
    ["203.0.113.7", true],
    ["203.0.113.8", false],
    ["::ffff:10.0.0.1", true],
    ["2001:db8:ffff::1", true],
    ["2001:db9::", false],
    ["2001:db7:ffff::", false],
    ["::", false],
    ["garbage", false],
  ])("has %s: %s", (address, is) => {
    expect(list.includes(address)).toBe(is);
  });

  it("of one family admits nothing of the other", () => {
    const [ipv4, ipv6] = [new AddressList(["0.0.0.0/0"]), new AddressList(["::/0"])];
    const both = (address: string) => [ipv4.includes(address), ipv6.includes(address)];
    expect([both("1.2.3.4"), both("::ffff:1.2.3.4"), both("::1"), both("64:ff9b::1.2.3.4")]).toEqual([
      [true, false],
      [true, false],
      [false, true],
      [false, true],
    ]);
  });

  it("admits what Node's block list has", () => {
    const { int, pick } = seeded(41);
    const wrong: unknown[] = [];
    for (let round = 0; round < 200; round++) {
      const cidrs = Array.from({ length: int(1, 12) }, () => randomCidr(int, pick));
      const valid = [...new Set(canonicalCidrs(cidrs))];
      const ours = new AddressList(valid);
      // One of each family: Node's also compares IPv4 addresses with IPv6 networks.
      const node = { ipv4: new BlockList(), ipv6: new BlockList() };
      for (const cidr of valid) {
        const [address = "", bits] = cidr.split("/");
        node[familyOf(address)].addSubnet(address, Number(bits), familyOf(address));
      }
      for (let i = 0; i < 40; i++) {
        const [address = ""] = randomCidr(int, pick, true).split("/");
        const want = node[familyOf(address)].check(address, familyOf(address));
        if (ours.includes(address) !== want) wrong.push([valid, address, want]);
      }
    }
    expect(wrong.slice(0, 3)).toEqual([]);
  });
});

const familyOf = (address: string) => (address.includes(":") ? "ipv6" : "ipv4");

/** Few distinct values, so that networks contain each other and addresses fall into them. */
function randomCidr(int: (a: number, b: number) => number, pick: <T>(list: T[]) => T, bare = false): string {
  const isIpv6 = int(0, 1) === 1;
  const width = isIpv6 ? 128 : 32;
  const bits = bare ? width : int(0, 12) * (width / 16);
  const bytes = Array.from({ length: width / 8 }, () => pick([0, 1, 127, 128, 255]));
  const masked = bytes.map((byte, i) => byte & (0xff00 >> Math.min(8, Math.max(0, bits - 8 * i))) & 0xff);
  const used = bare ? bytes : masked;
  if (!isIpv6) return `${used.join(".")}/${bits}`;
  const groups = Array.from({ length: 8 }, (_, i) => ((used[2 * i] ?? 0) * 256 + (used[2 * i + 1] ?? 0)).toString(16));
  const text = groups.join(":");
  return `${text.startsWith("0:0:0:0:0:ffff") ? "1:0:0:0:0:0:0:0" : text}/${bits}`;
}

describe("networks of a setting", () => {
  it.each([
    ["10.0.0.5/8", ["10.0.0.0/8"]],
    ["10.0.0.0/08", ["10.0.0.0/8"]],
    ["192.0.2.1", ["192.0.2.1/32"]],
    ["2001:DB8::5/33", ["2001:db8::/33"]],
    ["fe80::1%eth0/64", ["fe80::/64"]],
    ["::ffff:10.1.2.3/104", ["10.0.0.0/8"]],
    ["::/0", ["::/0", "0.0.0.0/0"]],
    ["::ffff:0:0/95", ["::fffe:0:0/95", "0.0.0.0/0"]],
    ["10.0.0.0/33", null],
    ["10.0.0.0/8/8", null],
    ["10.0.0/8", null],
    ["::1/129", null],
    ["proxy", null],
  ])("reads %s as %j", (text, networks) => expect(parseSettingNetwork(text)).toEqual(networks));
});
