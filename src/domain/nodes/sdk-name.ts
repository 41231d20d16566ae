// The library that a node runs, as the header `keyrack-sdk: name/version` of its calls names it. Stored as sent; a
// malformed one counts as absent, because a node must never be refused for it.

/** The name may contain slashes, the version may not: the text is split at the last one. */
const SDK = /^([A-Za-z0-9@._+/-]{1,64})\/([A-Za-z0-9@._+-]{1,64})$/;

type NodeSdk = { name: string; version: string };

export function readSdk(header: string | string[] | undefined): string | null {
  return typeof header === "string" && SDK.test(header) ? header : null;
}

export function viewSdk(stored: string | null): NodeSdk | null {
  const [, name, version] = SDK.exec(stored ?? "") ?? [];
  return name === undefined || version === undefined ? null : { name, version };
}
