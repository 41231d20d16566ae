// The bill of materials in CycloneDX 1.6. The same content gives the same bytes: the serial number is derived from the
// content, and the time is the source's.
import { createHash } from "node:crypto";
import type { Component } from "./components.ts";

type SbomInput = {
  version: string;
  /** Seconds since 1970. */
  epoch: number;
  components: readonly Component[];
  /** Platform → SHA-512 of the archive that its Node comes in. Empty if there is no binary. */
  nodeArchives: Readonly<Record<string, string>>;
};

/** Numbers of interfaces, not versions of parts. */
const NOT_PARTS = ["node", "modules", "napi"];
/** UUID version 5 under the namespace for URLs. */
const NAMESPACE = Buffer.from("6ba7b8119dad11d180b400c04fd430c8", "hex");

function uuidV5(name: string): string {
  const hash = createHash("sha1").update(NAMESPACE).update(name).digest().subarray(0, 16);
  hash.writeUInt8((hash.readUInt8(6) & 0x0f) | 0x50, 6);
  hash.writeUInt8((hash.readUInt8(8) & 0x3f) | 0x80, 8);
  return hash.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

const sha512 = (content: string): object[] => [{ alg: "SHA-512", content }];
const licences = (spdx: string): object[] => [spdx.includes(" ") ? { expression: spdx } : { license: { id: spdx } }];

function entry({ name, version, licence, purl, sha512: hash, inside }: Component, archives: object[]): object {
  return {
    type: name === "Node.js" ? "platform" : "library",
    "bom-ref": purl,
    name,
    version,
    ...(hash === null ? {} : { hashes: sha512(hash) }),
    licenses: licences(licence),
    purl,
    ...(inside === undefined ? {} : { properties: [{ name: "keyrack:inside", value: inside }] }),
    ...(name === "Node.js" ? { components: [...archives, ...nodeParts()] } : {}),
  };
}

function nodeParts(): object[] {
  const parts = Object.entries(process.versions).filter(([name]) => !NOT_PARTS.includes(name));
  return parts.map(([name, version = ""]) => {
    const purl = `pkg:generic/${name}@${encodeURIComponent(version)}`;
    return { type: "library", "bom-ref": `node/${purl}`, name, version, purl };
  });
}

export function sbomText({ version, epoch, components, nodeArchives }: SbomInput): string {
  const archives = Object.entries(nodeArchives).map(([platform, hash]) => {
    const purl = `pkg:npm/node-${platform}@${process.versions.node}`;
    const name = `node-${platform}`;
    return { type: "file", "bom-ref": purl, name, version: process.versions.node, hashes: sha512(hash), purl };
  });
  const own = `pkg:generic/keyrack@${version}`;
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      timestamp: new Date(epoch * 1000).toISOString(),
      component: {
        type: "application",
        "bom-ref": own,
        name: "keyrack",
        version,
        licenses: licences("Apache-2.0"),
        purl: own,
      },
    },
    components: components.map((each) => entry(each, archives)),
    dependencies: [{ ref: own, dependsOn: components.map(({ purl }) => purl) }],
  };
  const serialNumber = `urn:uuid:${uuidV5(JSON.stringify(document))}`;
  return `${JSON.stringify({ ...document, serialNumber }, null, 2)}\n`;
}
