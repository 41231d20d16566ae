// Parts of a release that are modules of their own. One that does not exist yet is left out with a message.
import { existsSync } from "node:fs";

async function load<T>(file: string): Promise<T | null> {
  const url = new URL(file, import.meta.url);
  if (existsSync(url)) return (await import(url.href)) as T;
  console.error(`left out: tools/release/${file} does not exist yet`);
  return null;
}

export const loadInstaller = () =>
  load<{ releasedInstallScript(script: string, keys: string): string }>("install-script.ts");
export const loadSign = () =>
  load<{
    checkSignKey(signKeyFile: string, keysFile: string): void;
    signSums(out: string, signKeyFile: string, keysFile: string): string;
  }>("sign.ts");
