// Public addresses: outside every special-purpose block, in any form that contains an IPv4 address.
import { describe, expect, it } from "vitest";
import { addressIn, isPublicAddress } from "../../../src/kernel/network/public-addresses.ts";

describe("isPublicAddress", () => {
  const blocks = (
    "0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.1 " +
    "192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.7 224.0.0.1 239.1.1.1 240.0.0.1 " +
    "255.255.255.255 :: ::1 ::ffff:8.8.8.8 ::ffff:7f00:1 64:ff9b::808:808 64:ff9b:1::1 100::1 2001::1 2001:1ff:: " +
    "2001:db8::1 2002:7f00:1:: 3fff::1 3fff:fff::1 fc00::1 fd12::1 fe80::1 ff02::1 4000::1"
  ).split(" ");
  it.each(blocks)("refuses %s", (address) => expect(isPublicAddress(address)).toBe(false));

  const open = (
    "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 " +
    "198.17.255.255 198.20.0.0 223.255.255.255 2001:200::1 2001:4860:4860::8888 2606:4700::1111 3fff:1000::1 2a00::1"
  ).split(" ");
  it.each(open)("admits %s", (address) => expect(isPublicAddress(address)).toBe(true));

  it("finds the address in every spelling of a URL", () => {
    const found = ["http://2130706433/", "http://0177.1/", "http://[::1]:8/", "http://10.1/", "http://a.example/"];
    expect(found.map((url) => addressIn(new URL(url)))).toEqual(["127.0.0.1", "127.0.0.1", "::1", "10.0.0.1", null]);
  });
});
