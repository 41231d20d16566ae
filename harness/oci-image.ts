// Reads an OCI image with tar, and compares every blob in it with its digest and size.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

type Descriptor = { mediaType: string; digest: string; size: number; platform?: { architecture: string; os: string } };
type Manifest = { config: Descriptor; layers: Descriptor[] };
type Config = {
  architecture: string;
  os: string;
  config: Record<string, unknown> & { Env: string[]; User: string; Entrypoint: string[]; Cmd: string[] };
  rootfs: { diff_ids: string[] };
};
/** `layers`: uncompressed tar archives; `compressed`: their size in the image. */
export type Platform = { manifest: Manifest; config: Config; layers: Buffer[]; compressed: number };
/** `unused`: blobs that nothing refers to. */
export type Image = { platforms: Map<string, Platform>; unused: string[] };

export const sha256 = (bytes: Uint8Array): string => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

/** Unpacks the archive below `work`. Throws on a digest, size or platform that is wrong. */
export function readImage(archive: string, work: string): Image {
  const dir = mkdtempSync(join(work, "layout-"));
  execFileSync("tar", ["-xf", archive, "-C", dir]);
  const used = new Set<string>();
  const json = (bytes: Buffer): unknown => JSON.parse(bytes.toString());
  const blob = ({ digest, size }: Descriptor): Buffer => {
    const name = digest.replace("sha256:", "");
    const bytes = readFileSync(join(dir, "blobs/sha256", name));
    if (bytes.length !== size || sha256(bytes) !== digest) throw new Error(`${digest} is not what is named`);
    used.add(name);
    return bytes;
  };
  const layout = json(readFileSync(join(dir, "oci-layout"))) as { imageLayoutVersion: string };
  if (layout.imageLayoutVersion !== "1.0.0") throw new Error("not an OCI layout");
  const { manifests } = json(readFileSync(join(dir, "index.json"))) as { manifests: Descriptor[] };
  const [index] = manifests;
  if (!index || manifests.length > 1) throw new Error("the layout must name one image");
  const platforms = (json(blob(index)) as { manifests: Descriptor[] }).manifests.map(
    (descriptor): [string, Platform] => {
      const manifest = json(blob(descriptor)) as Manifest;
      const config = json(blob(manifest.config)) as Config;
      const compressed = manifest.layers.map(blob);
      const layers = compressed.map((bytes) => gunzipSync(bytes));
      if (layers.map(sha256).join() !== config.rootfs.diff_ids.join()) throw new Error("a layer is not what is named");
      const { architecture, os } = config;
      if (descriptor.platform?.architecture !== architecture || descriptor.platform.os !== os)
        throw new Error(`the index names another platform than ${architecture}`);
      return [architecture, { manifest, config, layers, compressed: Buffer.concat(compressed).length }];
    },
  );
  const unused = readdirSync(join(dir, "blobs/sha256")).filter((name) => !used.has(name));
  return { platforms: new Map(platforms), unused };
}

/** One entry of a layer as tar lists it: mode such as "-rwxr-xr-x", owner such as "0/0". */
export type LayerEntry = { path: string; mode: string; owner: string; time: string; target: string | null };

export function listLayer(layer: Buffer): LayerEntry[] {
  const args = ["-tvf", "-", "--numeric-owner", "--full-time", "--quoting-style=literal"];
  const env = { ...process.env, TZ: "UTC", LC_ALL: "C.UTF-8" };
  const text = execFileSync("tar", args, { input: layer, env, encoding: "utf8", maxBuffer: 2 ** 28 });
  return text
    .trimEnd()
    .split("\n")
    .map((line) => {
      const [, mode = "", owner = "", time = "", name = ""] = /^(\S+) (\S+) +\d+ (\S+ \S+) (.*)$/.exec(line) ?? [];
      const [path = "", target = null] = mode.startsWith("l") ? name.split(" -> ") : [name];
      return { path: path.replace(/\/$/, ""), mode, owner, time, target };
    });
}

export function readLayerFile(layer: Buffer, path: string): string {
  return execFileSync("tar", ["-xOf", "-", path], { input: layer, encoding: "utf8", maxBuffer: 2 ** 28 });
}

/** The root file system of a platform, with its owners and modes; only root can make one. */
export function unpackRoot({ layers }: Platform, root: string): void {
  mkdirSync(root, { recursive: true });
  for (const layer of layers)
    execFileSync("tar", ["-xpf", "-", "--numeric-owner", "--same-owner", "-C", root], { input: layer });
}
