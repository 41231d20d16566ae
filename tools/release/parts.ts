// Parts of a release that are modules of their own. One that does not exist yet is left out with a message.
import { existsSync } from "node:fs";
import type { Target } from "../sea/targets.ts";

export type Deb = { binary: string; target: Target; version: string; out: string; epoch: number; notices: string };
export type Oci = {
  binaries: Partial<Record<Target, string>>;
  version: string;
  commit: string | null;
  out: string;
  epoch: number;
};

async function load<T>(file: string): Promise<T | null> {
  const url = new URL(file, import.meta.url);
  if (existsSync(url)) return (await import(url.href)) as T;
  console.error(`left out: tools/release/${file} does not exist yet`);
  return null;
}

export const loadDeb = () => load<{ buildDeb(input: Deb): Promise<unknown> }>("deb.ts");
export const loadOci = () => load<{ buildOci(input: Oci): Promise<unknown> }>("oci.ts");
export const loadUnit = () => load<{ systemdUnit(binary: string): string }>("unit.ts");
export const loadInstaller = () =>
  load<{ releasedInstallScript(script: string, keys: string): string }>("install-script.ts");
export const loadSign = () =>
  load<{
    checkSignKey(signKeyFile: string, keysFile: string): void;
    signSums(out: string, signKeyFile: string, keysFile: string): string;
  }>("sign.ts");
