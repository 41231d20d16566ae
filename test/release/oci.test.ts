// The container image: every digest and size, what is in it, and what is not. test/release/container.test.ts runs it.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listLayer, readImage, readLayerFile, sha256, type Image, type LayerEntry } from "../../harness/oci-image.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { hasTool, skipOrFail } from "../../harness/processes/tools.ts";
import { architectures } from "../../tools/release/architectures.ts";
import { fetchPackage, readLock } from "../../tools/release/debian.ts";
import { buildOci } from "../../tools/release/oci.ts";
import { allTargets } from "../../tools/sea/targets.ts";

const EPOCH = 1_700_000_000;
const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const TIMEOUT_MS = 300_000;
/** No test depends on how small the layers are. */
const level = 1;

async function packagesCanBeHad(): Promise<boolean> {
  if (!hasTool("dpkg-deb", "the image")) return false;
  try {
    for (const locked of readLock().packages) await fetchPackage(locked);
    return true;
  } catch (error) {
    skipOrFail("mirror", "the image", `cannot be used: ${(error as Error).message}`);
    return false;
  }
}

const temp = tempDir();
const at = (...parts: string[]): string => join(temp.dir, ...parts);
afterAll(() => temp[Symbol.dispose]());

async function build(out: string): Promise<void> {
  writeFileSync(at("stand-in"), "not a program");
  const binaries = Object.fromEntries(allTargets.map((target) => [target, at("stand-in")]));
  await buildOci({ binaries, version: "1.2.3", commit: COMMIT, out, epoch: EPOCH, level });
}

describe.runIf(await packagesCanBeHad())("the image", { timeout: TIMEOUT_MS }, () => {
  let image: Image;
  beforeAll(async () => {
    await build(at("image.tar"));
    image = readImage(at("image.tar"), temp.dir);
  }, TIMEOUT_MS);

  it("is one index of both platforms with two layers each, and holds nothing that it does not name", () => {
    const layers = [...image.platforms].map(([architecture, platform]) => [architecture, platform.layers.length]);
    expect(layers).toEqual([
      ["amd64", 2],
      ["arm64", 2],
    ]);
    expect(image.unused).toEqual([]);
  });

  it("has the same bytes when it is built again, and another base only with other packages", async () => {
    await build(at("again.tar"));
    expect(sha256(readFileSync(at("again.tar")))).toBe(sha256(readFileSync(at("image.tar"))));
    const binaries = { "linux-x64": at("stand-in") };
    await buildOci({ binaries, version: "1.2.4", commit: null, out: at("next.tar"), epoch: EPOCH + 1, level });
    const { platforms } = readImage(at("next.tar"), temp.dir);
    expect([...platforms.keys()]).toEqual(["amd64"]);
    const [before, next] = [image.platforms, platforms].map((each) =>
      each.get("amd64")?.manifest.layers.map(({ digest }) => digest),
    );
    expect(next?.[0]).toBe(before?.[0]);
    expect(next?.[1]).not.toBe(before?.[1]);
  });

  it("runs keyrack serve as an unprivileged user, with its data in a volume", () => {
    for (const { config } of image.platforms.values())
      expect(config.config).toEqual({
        User: "4747:4747",
        ExposedPorts: { "4747/tcp": {} },
        Env: [
          "PATH=/usr/bin",
          "KEYRACK_DATA_DIR=/data",
          "KEYRACK_HOST=0.0.0.0",
          "MALLOC_ARENA_MAX=2",
          "MALLOC_MMAP_THRESHOLD_=1048576",
        ],
        Entrypoint: ["keyrack"],
        Cmd: ["serve"],
        Volumes: { "/data": {} },
        WorkingDir: "/data",
        Labels: {
          "org.opencontainers.image.title": "Keyrack",
          "org.opencontainers.image.description": expect.any(String) as string,
          "org.opencontainers.image.version": "1.2.3",
          "org.opencontainers.image.revision": COMMIT,
          "org.opencontainers.image.source": "https://github.com/keyrack/keyrack",
          "org.opencontainers.image.licenses": "Apache-2.0",
          "org.opencontainers.image.created": "2023-11-14T22:13:20.000Z",
        },
      });
  });

  describe.each(allTargets.map((target) => [architectures[target]]))("on %s", (architecture) => {
    let base: LayerEntry[];
    let program: LayerEntry[];
    const readBase = (path: string): string =>
      readLayerFile(image.platforms.get(architecture)?.layers[0] as Buffer, path);
    const find = (path: string): LayerEntry | undefined => base.find((entry) => entry.path === path);
    beforeAll(() => {
      [base = [], program = []] = image.platforms.get(architecture)?.layers.map(listLayer) ?? [];
    });

    it("has no shell and no package manager: keyrack is its only program", () => {
      const files = [...base, ...program].filter(({ mode }) => !mode.startsWith("d")).map(({ path }) => path);
      expect(files.filter((path) => /(?:^|\/)s?bin\//.test(path))).toEqual(["usr/bin/keyrack"]);
      expect(program.find(({ path }) => path === "usr/bin/keyrack")?.mode).toBe("-rwxr-xr-x");
    });

    it("is sorted, with fixed times, owned by root except the data dir, and written to by no other user", () => {
      for (const layer of [base, program]) {
        const paths = layer.map(({ path }) => path);
        expect(paths.join() === paths.toSorted((a, b) => (a < b ? -1 : 1)).join()).toBe(true);
      }
      expect(new Set(base.map(({ time }) => time))).toEqual(new Set(["1970-01-01 00:00:00"]));
      expect(new Set(program.map(({ time }) => time))).toEqual(new Set(["2023-11-14 22:13:20"]));
      const all = [...base, ...program];
      expect(all.filter(({ owner }) => owner !== "0/0")).toMatchObject([
        { path: "data", mode: "drwx------", owner: "4747/4747" },
      ]);
      const open = all.filter(({ mode }) => !mode.startsWith("l") && /^.{5}w|^.{8}w|[st]/i.test(mode));
      expect(open).toMatchObject([{ path: "tmp", mode: "drwxrwxrwt" }]);
    });

    it("has certificates, time zones, service names, and the licence and version of every package", () => {
      const bundle = readBase("etc/ssl/certs/ca-certificates.crt");
      expect(bundle.match(/^-----BEGIN CERTIFICATE-----$/gm)?.length).toBeGreaterThan(100);
      for (const path of ["etc/services", "usr/share/zoneinfo/Europe/Berlin", "etc/nsswitch.conf", "etc/passwd"])
        expect(find(path)?.mode, path).toMatch(/^[-l]/);
      const { packages } = readLock();
      for (const { package: name, version } of packages.filter((each) => each.architecture === architecture)) {
        expect(readBase(`var/lib/dpkg/status.d/${name}`)).toContain(`\nVersion: ${version}\n`);
        const documents = find(`usr/share/doc/${name}`)?.target ?? name;
        expect(find(`usr/share/doc/${documents}/copyright`)?.mode, name).toBe("-rw-r--r--");
      }
    });

    it.runIf(hasTool("readelf", "the libraries of the image"))("has every library that Node needs", () => {
      const text = execFileSync("readelf", ["--dynamic", "--wide", process.execPath], { encoding: "utf8" });
      const needed = [...text.matchAll(/\(NEEDED\).*\[(lib.*)\]/g)].map(([, name = ""]) => name);
      expect(needed).toContain("libstdc++.so.6");
      const isFile = (path: string): boolean => {
        const { mode = "", target } = find(path) ?? {};
        if (!target) return mode.startsWith("-");
        return isFile(target.startsWith("/") ? target.slice(1) : join(path, "..", target));
      };
      const loader = architecture === "amd64" ? "lib64/ld-linux-x86-64.so.2" : "lib/ld-linux-aarch64.so.1";
      const folder = architecture === "amd64" ? "x86_64-linux-gnu" : "aarch64-linux-gnu";
      const missing = needed.filter((name) => !["lib", "usr/lib"].some((lib) => isFile(`${lib}/${folder}/${name}`)));
      expect([isFile(loader), missing]).toEqual([true, []]);
    });
  });

  it.runIf(hasTool("skopeo", "the image in skopeo"))("is understood by skopeo", () => {
    for (const architecture of Object.values(architectures)) {
      const args = ["--override-os", "linux", "--override-arch", architecture, "inspect"];
      const text = execFileSync("skopeo", [...args, `oci-archive:${at("image.tar")}`], { encoding: "utf8" });
      const layers = image.platforms.get(architecture)?.manifest.layers.map(({ digest }) => digest);
      expect(JSON.parse(text)).toMatchObject({ Architecture: architecture, Os: "linux", Layers: layers });
    }
  });
});

describe("tools/oci.lock.json", () => {
  const { packages } = readLock();

  it("names the same packages for both architectures, by version, hash and path, and no host", () => {
    const of = (architecture: string): string[] =>
      packages.filter((each) => each.architecture === architecture).map((each) => each.package);
    expect(of("amd64")).toEqual(of("arm64"));
    expect(packages.map((each) => each.package)).toEqual(
      expect.arrayContaining(["libc6", "libstdc++6", "libgcc-s1", "ca-certificates", "tzdata", "netbase"]),
    );
    for (const { version, sha256, path, ...other } of packages) {
      expect(version).toMatch(/^\d[\w.+~:-]*$/);
      expect(sha256).toMatch(/^[0-9a-f]{64}$/);
      expect(path).toMatch(/^pool\/[\w./+~%-]+\.deb$/);
      expect(Object.keys(other).toSorted()).toEqual(["architecture", "package"]);
    }
  });
});
