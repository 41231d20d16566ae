// One PostgreSQL connection for one piece of work, beside the store's own.
import { Client } from "pg";

export async function connected<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 3_000 });
  client.on("error", () => {}); // the query that needs the connection fails, and that is told
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
