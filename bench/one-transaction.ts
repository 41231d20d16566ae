// A server without group commit on PostgreSQL: the same statements for a mint, in one transaction per request.
import { randomBytes, randomUUID } from "node:crypto";
import pg from "pg";

const SCHEMA = `
  create table heads (id text primary key, seq bigint not null, hash text not null);
  create table projects (id text primary key, version bigint not null);
  create table tenants (id text primary key);
  create table keys (id text primary key, project_id text not null, tenant_id text not null, hash text not null unique, created_at bigint not null, version bigint not null);
  create index on keys (tenant_id, created_at, id);
  create index on keys (project_id, version);
  create table audit (ws text not null, seq bigint not null, payload text not null, hash text not null, primary key (ws, seq));
  insert into heads values ('w', 0, '0'); insert into projects values ('p', 1); insert into tenants values ('t');`;

async function mint(client: pg.PoolClient): Promise<void> {
  const q = (name: string, text: string, values: unknown[]) => client.query({ name, text, values });
  await client.query("begin");
  const head = await q("h", "select seq, hash from heads where id = $1 for update", ["w"]);
  await q("p", "select version from projects where id = $1", ["p"]);
  await q("t", "select id from tenants where id = $1", ["t"]);
  const { rows } = await q("b", "update projects set version = version + 1 where id = $1 returning version", ["p"]);
  const hash = randomBytes(32).toString("hex");
  await q("k", "insert into keys values ($1, $2, $3, $4, $5, $6)", [
    randomUUID(),
    "p",
    "t",
    hash,
    Date.now(),
    rows[0].version,
  ]);
  const seq = Number(head.rows[0].seq) + 1;
  await q("a", "insert into audit values ($1, $2, $3, $4)", ["w", seq, '{"env":"live"}', hash]);
  await q("u", "update heads set seq = $2, hash = $3 where id = $1", ["w", seq, hash]);
  await client.query("commit");
}

/** Mints per second, with one connection per client. */
export async function oneTransactionEach(url: string, clients: number): Promise<number> {
  const pool = new pg.Pool({ connectionString: url, max: clients });
  pool.on("error", () => {}); // the scratch database is dropped while connections are idle
  await pool.query(SCHEMA);
  let made = 0;
  const until = performance.now() + 2_000;
  const work = async (): Promise<void> => {
    const client = await pool.connect();
    while (performance.now() < until) {
      await mint(client);
      made++;
    }
    client.release();
  };
  const start = performance.now();
  await Promise.all(Array.from({ length: clients }, work));
  const rate = made / ((performance.now() - start) / 1_000);
  await pool.end();
  return rate;
}
