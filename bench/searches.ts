// Searches and audit filters of a large workspace beside those of a small one. It shares its measurements with
// `million` when both run in one command.
import type { Times } from "./large-requests.ts";
import { timeMillion } from "./million.ts";
import type { Row } from "./report.ts";
import type { RowName } from "./rows.ts";

const row = (name: RowName, ours: number, peer: number, target: string): Row => {
  return { name, ours, peer, ratio: ours / peer, target, unit: "ms" };
};

/** The request that is slowest beside its peer. */
function worst(times: readonly Times[], peerOf: (one: Times) => number): { ours: number; peer: number } {
  const pairs = times.map((one) => ({ ours: one.ms, peer: peerOf(one) }));
  return pairs.toSorted((a, b) => b.ours / b.peer - a.ours / a.peer)[0]!;
}

const PLAIN = "audit_logs?order=desc";

async function rowsOf(backend: "sqlite" | "postgres"): Promise<Row[]> {
  const { many, few } = await timeMillion(backend);
  const find = (times: readonly Times[], name: string): Times => times.find((one) => one.name === name)!;
  const timeOf = (times: readonly Times[], name: string): number => find(times, name).ms;
  // A list that is almost empty at a thousand keys is no peer of a full page.
  const isPeer = ({ name, rows }: Times): boolean => 2 * find(few, name).rows >= rows;
  const keys = worst(
    many.filter((one) => one.name.startsWith("keys?") && isPeer(one)),
    ({ name }) => timeOf(few, name),
  );
  const plain = timeOf(many, PLAIN);
  const audit = worst(
    many.filter(({ name }) => name.startsWith("audit_logs") && name !== PLAIN),
    () => plain,
  );
  const names = {
    sqlite: ["insight/search", "insight/audit", "insight/overview"],
    postgres: ["insight/search-postgres", "insight/audit-postgres", "insight/overview-postgres"],
  } as const;
  const [search, filter, overview] = names[backend];
  return [
    row(search, keys.ours, keys.peer, "<= 2.0"),
    row(filter, audit.ours, audit.peer, "<= 2.0"),
    row(overview, timeOf(many, "overview"), timeOf(few, "overview"), "<= 3.0"),
  ];
}

export async function searches(): Promise<Row[]> {
  return [...(await rowsOf("sqlite")), ...(await rowsOf("postgres"))];
}
