// Where a request has its key: in one of two headers, or in what the vendor's `getKey` returns.

import type { KeyFormats } from "../kernel/crypto/key-digest.ts";

/** Not sliced: the verifier reads the key where it is. */
type KeyLocation = { text: string; offset: number } | null;
export type KeyHeaders = { authorization: string | null | undefined; apiKey: string | null | undefined };

const BEARER = "bearer ";

/** `Authorization: Bearer <prefix>_…`, else `x-api-key`, else any other bearer token, which was meant as a key. */
export function findKey({ authorization, apiKey }: KeyHeaders, formats: KeyFormats): KeyLocation {
  const bearer = authorization ? bearerOffset(authorization) : 0;
  if (authorization && bearer > 0 && formats.begin(authorization, bearer))
    return { text: authorization, offset: bearer };
  if (apiKey) return { text: apiKey, offset: 0 };
  return authorization && bearer > 0 && bearer < authorization.length ? { text: authorization, offset: bearer } : null;
}

/** The offset of the credential after `Bearer` and spaces, or 0. */
function bearerOffset(header: string): number {
  if (header.slice(0, BEARER.length).toLowerCase() !== BEARER) return 0;
  let at = BEARER.length;
  while (header[at] === " ") at++;
  return at;
}

export function keyFromValue(key: unknown): KeyLocation {
  if (key === null || key === undefined || key === "") return null;
  // A value that is not a string cannot be a key: the verifier rejects the placeholder.
  return { text: typeof key === "string" ? key : "?", offset: 0 };
}
