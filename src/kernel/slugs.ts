// Slugs of workspaces and projects: their pattern, and a suggestion made from a name.
const SLUG_MAX = 63;
export const SLUG_MIN = 3;
export const SLUG_PATTERN = "^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$";

/** May be shorter than SLUG_MIN. */
export function slugOf(name: string): string {
  const plain = name.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  return plain
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, SLUG_MAX)
    .replace(/^-+|-+$/g, "");
}
