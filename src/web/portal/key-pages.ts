// Reads the tenant's keys, newest first, as many pages as are shown.
import type { Key, Keys } from "./types.ts";

const PAGE = 100;

/** The part of the API client that it needs; the client itself needs a browser. */
export type Reader = { get<T>(path: string): Promise<T> };

export async function fetchKeys(api: Reader, pages: number, showRevoked: boolean): Promise<Keys> {
  const data: Key[] = [];
  for (let page = 1; ; page++) {
    const last = data.at(-1);
    const after = last ? `&after=${last.id}` : "";
    const list = await api.get<Keys>(`keys?limit=${PAGE}&include_revoked=${showRevoked}${after}`);
    data.push(...list.data);
    if (!list.has_more || page >= pages) return { ...list, data };
  }
}
