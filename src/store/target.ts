// Which database to use: a SQLite file or a PostgreSQL address.
export type DatabaseTarget = { kind: "sqlite"; file: string } | { kind: "postgres"; url: string; pool: number };
export type PostgresTarget = Extract<DatabaseTarget, { kind: "postgres" }>;
