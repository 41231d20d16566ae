// The container image as an OCI image layout in one tar, made without an engine. Every target has two layers, the base
// and the binary; one index names them all.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { MALLOC_ENV } from "../../harness/release/malloc.ts";
import type { Target } from "../sea/targets.ts";
import { architectures, type Architecture } from "./architectures.ts";
import { baseLayer, USER } from "./oci-base.ts";
import { withFolders, writeTar, type Entry } from "./tar.ts";

const licence = new URL("../../LICENSE", import.meta.url);

const ENV = { PATH: "/usr/bin", KEYRACK_DATA_DIR: "/data", KEYRACK_HOST: "0.0.0.0", ...MALLOC_ENV };
const TYPES = {
  index: "application/vnd.oci.image.index.v1+json",
  manifest: "application/vnd.oci.image.manifest.v1+json",
  config: "application/vnd.oci.image.config.v1+json",
  layer: "application/vnd.oci.image.layer.v1.tar+gzip",
} as const;

/** Of compression: 9 saves half a percent for more than twice the CPU. */
const LEVEL = 6;

type OciInput = {
  /** Path of the binary of each target to include. */
  binaries: Partial<Record<Target, string>>;
  version: string;
  /** The commit it was built from, if there is one. */
  commit: string | null;
  /** Path of the archive to write. */
  out: string;
  /** Time of the image and of the binary in it, in seconds. */
  epoch: number;
  /** Of the compression of its layers, from 1 to 9. */
  level?: number;
};

type Descriptor = { mediaType: string; digest: string; size: number };

export async function buildOci({ binaries, version, commit, out, epoch, level = LEVEL }: OciInput): Promise<void> {
  const blobs = new Blobs(level);
  const labels = labelsOf(version, commit, epoch);
  const targets = (Object.keys(architectures) as Target[]).filter((target) => binaries[target]);
  const manifests = await Promise.all(
    targets.map(async (target) => {
      const architecture = architectures[target];
      const manifest = await addImage(blobs, architecture, binaries[target] as string, labels, epoch);
      return { ...manifest, platform: { architecture, os: "linux" } };
    }),
  );
  const index = blobs.addJson(TYPES.index, { schemaVersion: 2, mediaType: TYPES.index, manifests });
  const annotations = {
    "io.containerd.image.name": `docker.io/library/keyrack:${version}`,
    "org.opencontainers.image.ref.name": version,
  };
  const layout = [
    jsonFile("oci-layout", { imageLayoutVersion: "1.0.0" }),
    jsonFile("index.json", { schemaVersion: 2, mediaType: TYPES.index, manifests: [{ ...index, annotations }] }),
  ];
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(out, writeTar(withFolders([...layout, ...blobs.entries()]), epoch));
}

async function addImage(
  blobs: Blobs,
  architecture: Architecture,
  binary: string,
  labels: Record<string, string>,
  epoch: number,
): Promise<Descriptor> {
  const tars = [await baseLayer(architecture), binaryLayer(binary, epoch)];
  const layers = await Promise.all(tars.map((tar) => blobs.addLayer(tar)));
  const created = new Date(epoch * 1000).toISOString();
  const config = blobs.addJson(TYPES.config, {
    created,
    architecture,
    os: "linux",
    config: {
      User: `${USER}:${USER}`,
      ExposedPorts: { "4747/tcp": {} },
      Env: Object.entries(ENV).map(([name, value]) => `${name}=${value}`),
      Entrypoint: ["keyrack"],
      Cmd: ["serve"],
      Volumes: { "/data": {} },
      WorkingDir: "/data",
      Labels: labels,
    },
    rootfs: { type: "layers", diff_ids: tars.map(digestOf) },
    history: [
      { created: new Date(0).toISOString(), created_by: "Debian packages of tools/oci.lock.json" },
      { created, created_by: "keyrack" },
    ],
  });
  return blobs.addJson(TYPES.manifest, { schemaVersion: 2, mediaType: TYPES.manifest, config, layers });
}

function binaryLayer(binary: string, epoch: number): Buffer {
  const files: Entry[] = [
    { path: "usr/bin/keyrack", kind: "file", mode: 0o755, content: readFileSync(binary) },
    { path: "usr/share/doc/keyrack/LICENSE", kind: "file", mode: 0o644, content: readFileSync(licence) },
  ];
  return writeTar(withFolders(files), epoch);
}

function labelsOf(version: string, commit: string | null, epoch: number): Record<string, string> {
  const labels = {
    title: "Keyrack",
    description: "The self-hosted control plane for API keys",
    version,
    ...(commit && { revision: commit }),
    source: "https://github.com/keyrack/keyrack",
    licenses: "Apache-2.0",
    created: new Date(epoch * 1000).toISOString(),
  };
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [`org.opencontainers.image.${name}`, value]));
}

const digestOf = (bytes: Uint8Array): string => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

const jsonFile = (path: string, value: unknown): Entry => ({
  path,
  kind: "file",
  mode: 0o644,
  content: Buffer.from(JSON.stringify(value)),
});

/** Content by its digest. */
class Blobs {
  readonly #all = new Map<string, Uint8Array>();
  readonly #level: number;

  constructor(level: number) {
    this.#level = level;
  }

  addJson(mediaType: string, value: unknown): Descriptor {
    return this.#add(mediaType, Buffer.from(JSON.stringify(value)));
  }

  async addLayer(tar: Buffer): Promise<Descriptor> {
    return this.#add(TYPES.layer, await promisify(gzip)(tar, { level: this.#level }));
  }

  #add(mediaType: string, bytes: Uint8Array): Descriptor {
    const digest = digestOf(bytes);
    this.#all.set(digest, bytes);
    return { mediaType, digest, size: bytes.length };
  }

  entries(): Entry[] {
    return [...this.#all].map(([digest, content]) => ({
      path: `blobs/${digest.replace(":", "/")}`,
      kind: "file",
      mode: 0o644,
      content,
    }));
  }
}
