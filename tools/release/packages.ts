// Builds the binaries and every package of a release. What can run at the same time does: the targets beside each
// other, and the packages of a binary as soon as it is there.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Metafile } from "esbuild";
import { buildSdk } from "../build-sdk.ts";
import { bundledPackages, type Component } from "../inventory/components.ts";
import { makeBinary } from "../sea/binary.ts";
import { prepareProgram } from "../sea/program.ts";
import { root, type Target } from "../sea/targets.ts";
import { packFolder } from "./archive.ts";
import { architectures } from "./architectures.ts";
import { buildDeb } from "./deb.ts";
import { buildOci } from "./oci.ts";
import type { Options, PackageKind } from "./options.ts";
import type { Source } from "./source.ts";
import { buildTarball } from "./tarball.ts";

type Job = {
  options: Options;
  source: Source;
  /** Takes the packages. */
  folder: string;
  /** Takes everything else, and is removed afterwards. */
  work: string;
  /** The tarball's install.sh and keyrack.service. */
  installation: Record<string, string>;
};

export type Built = {
  codeCaches: Partial<Record<Target, boolean>>;
  components: Component[];
};

export async function buildPackages(job: Job): Promise<Built> {
  const { kinds } = job.options;
  const [fromBinaries, sdk] = await Promise.all([
    kinds.some((kind) => kind !== "npm") ? buildBinaries(job) : null,
    kinds.includes("npm") ? packSdk(job) : null,
  ]);
  return fromBinaries ?? { codeCaches: {}, components: bundledPackages(root, sdk ? [sdk] : []) };
}

/** Its own archive and not npm's, which depends on the npm that is installed. */
async function packSdk({ work, folder, source }: Job): Promise<Metafile> {
  console.error("building the library …");
  const metafile = await buildSdk(join(work, "sdk/package"), source.version);
  await packFolder(join(work, "sdk"), "package", join(folder, `keyrack-sdk-${source.version}.tgz`), source.epoch);
  return metafile;
}

async function buildBinaries(job: Job): Promise<Built> {
  const { options, source, folder, work } = job;
  const { version, commit, epoch } = source;
  console.error("bundling the program …");
  const program = await prepareProgram(join(work, "program"), source, options.keysFile);
  const wants = (kind: PackageKind): boolean => options.kinds.includes(kind);
  const notices = readFileSync(program.notices, "utf8");
  const buildTarget = async (target: Target) => {
    console.error(`building the binary for ${target} …`);
    const binary = await makeBinary(program, target, join(work, `keyrack-${target}`));
    console.error(`packing ${target} …`);
    const common = { binary: binary.path, target, version, epoch };
    const tar = { ...common, out: folder, work, notices: program.notices, installation: job.installation };
    const deb = { ...common, out: join(folder, `keyrack_${version}_${architectures[target]}.deb`), notices };
    const packages = [...(wants("tar") ? [buildTarball(tar)] : []), ...(wants("deb") ? [buildDeb(deb)] : [])];
    return { target, binary, packages };
  };
  const built = await Promise.all(options.targets.map(buildTarget));
  const of = <T>(value: (each: (typeof built)[number]) => T): Partial<Record<Target, T>> =>
    Object.fromEntries(built.map((each) => [each.target, value(each)]));
  const binaries = of(({ binary }) => binary.path);
  if (wants("oci")) console.error("packing the image …");
  const oci = { binaries, version, commit, epoch, out: join(folder, `keyrack-${version}-oci.tar`) };
  await Promise.all([...built.flatMap(({ packages }) => packages), ...(wants("oci") ? [buildOci(oci)] : [])]);
  return { codeCaches: of(({ binary }) => binary.codeCache), components: program.components };
}
