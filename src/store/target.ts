// Which database to use: a SQLite file or a PostgreSQL address.
export type DatabaseTarget = { kind: "sqlite"; file: string } | { kind: "postgres"; url: string; pool: number };
export type PostgresTarget = Extract<DatabaseTarget, { kind: "postgres" }>;

export const dialectName = (kind: DatabaseTarget["kind"]): string => (kind === "sqlite" ? "SQLite" : "PostgreSQL");

/** For messages and comparisons: without the password. */
export function describeTarget(target: DatabaseTarget): string {
  return target.kind === "sqlite" ? `sqlite:${target.file}` : withoutPassword(target.url).address;
}

/** Splits the password off an address, which may have it in the authority or in the query. */
export function withoutPassword(url: string): { address: string; password: string } {
  const address = new URL(url);
  const password = address.searchParams.get("password") ?? decodeURIComponent(address.password);
  address.password = "";
  address.searchParams.delete("password");
  return { address: address.href, password };
}
