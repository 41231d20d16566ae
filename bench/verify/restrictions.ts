// verify() of keys with a list of networks or another prefix, in turns with the same number of keys that have neither.
import { SnapshotLoader } from "../../src/kernel/policy/loader.ts";
import { median } from "../report.ts";
import { holding, mint, mintWith, pagesOf, PROJECT } from "./world.ts";

const KEYS = 1e5;
const TURNS = 1200;
const CALLS = 250;
const LISTED = 50;
const SCOPES = ["orders:read"];

type Options = { scopes: string[]; ip?: string };
type Verifier = {
  verify(key: string, options: Options): { ok: boolean };
  close(): Promise<unknown>;
};
type Side = { keyrack: Verifier; keys: string[]; addresses: readonly string[] };
type Turns = { name: RestrictionRow; ours: number[]; plain: number[]; target: string };
type RestrictionRow = "verify/address-list" | "verify/address-list-ipv6" | "verify/prefix-4" | "verify/prefix-9";

const ipv4 = {
  cidr: (i: number) => `10.${i}.0.0/16`,
  address: (i: number) => `10.${i % LISTED}.${i % 256}.${i % 251}`,
};
const ipv6 = {
  cidr: (i: number) => `2001:db8:${(i + 16).toString(16)}::/48`,
  address: (i: number) =>
    `2001:db8:${((i % LISTED) + 16).toString(16)}:${(i % 4096).toString(16)}::${(i % 251).toString(16)}`,
};

async function listed({ cidr, address }: typeof ipv4): Promise<Side> {
  const keys = Array.from({ length: KEYS }, mint);
  const allowed_cidrs = Array.from({ length: LISTED }, (_, i) => cidr(i));
  const keyrack = await holding(pagesOf(keys, { entry: () => ({ allowed_cidrs, ip_mode: "enforce" }) }));
  return { keyrack, keys, addresses: Array.from({ length: 1000 }, (_, i) => flat(address(i * 7))) };
}

async function prefixed(prefix: string): Promise<Side> {
  const keys = Array.from({ length: KEYS }, () => mintWith(prefix));
  return { keyrack: await holding(pagesOf(keys, { head: { key_prefixes: [prefix, "kr"] } })), keys, addresses: [] };
}

/** As a server receives it: one flat string, not a chain of concatenations. */
const flat = (text: string): string => Buffer.from(text).toString("latin1");

export async function restrictedTurns(): Promise<Turns[]> {
  const all: Turns[] = [];
  for (const [name, make, target] of [
    ["verify/address-list", () => listed(ipv4), "<= 1.3"],
    ["verify/address-list-ipv6", () => listed(ipv6), "<= 1.6"],
    ["verify/prefix-4", () => prefixed("acme"), "<= 1.3"],
    ["verify/prefix-9", () => prefixed("northwind"), "<= 1.3"],
  ] as const) {
    const [ours, plain] = [await make(), await prefixed("kr")];
    all.push({ name, target, ...(await turnsOf(ours, plain)) });
  }
  return all;
}

/** Nanoseconds per call of each, in turns. */
export async function turnsOf(ours: Side, plain: Side): Promise<{ ours: number[]; plain: number[] }> {
  const seen = { ours: [] as number[], plain: [] as number[] };
  const sides = [
    [ours, seen.ours],
    [plain, seen.plain],
  ] as const;
  const texts = sides.map(([{ keys }]) => keys.map(flat));
  for (let turn = 0; turn < TURNS; turn++)
    for (const [i, [side, times]] of sides.entries()) {
      const ns = timed(side, texts[i] as string[], (turn * 7919 * CALLS) % KEYS);
      if (turn >= TURNS / 4) times.push(ns);
    }
  await Promise.all([ours.keyrack.close(), plain.keyrack.close()]);
  return seen;
}

function timed({ keyrack, addresses }: Side, texts: readonly string[], from: number): number {
  const options: Options = addresses.length > 0 ? { scopes: SCOPES, ip: "" } : { scopes: SCOPES };
  let good = 0;
  const began = process.hrtime.bigint();
  for (let i = 0; i < CALLS; i++) {
    const at = (from + i) % texts.length;
    if (addresses.length > 0) options.ip = addresses[at % addresses.length] as string;
    if (keyrack.verify(texts[at] as string, options).ok) good++;
  }
  const ns = Number(process.hrtime.bigint() - began) / CALLS;
  if (good !== CALLS) throw new Error(`${CALLS - good} good keys were refused`);
  return ns;
}

/** Bytes that a list of 5 networks adds to a key, where each key has another one. */
export function listBytes(gc: () => void): number {
  const keys = Array.from({ length: 2e4 }, mint);
  const list = (i: number) => Array.from({ length: 5 }, (_, n) => `10.${n}.${i >> 8}.${i & 255}/32`);
  const use = (entry?: (i: number) => object) => {
    const pages = [...pagesOf(keys, entry ? { entry } : {})];
    gc();
    const before = inUse();
    const loader = new SnapshotLoader({ projectId: PROJECT, env: null, maxKeys: 1e7 });
    for (const page of pages) loader.add(JSON.parse(page));
    const policy = loader.finish();
    gc();
    return (inUse() - before) / policy.keys.count;
  };
  use();
  const restricted = (i: number) => ({ allowed_cidrs: list(i), ip_mode: "enforce" as const });
  return median(Array.from({ length: 5 }, () => -use() + use(restricted)));
}

function inUse(): number {
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
