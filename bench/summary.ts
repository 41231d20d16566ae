// The table that docs/performance.md begins with: what readers ask first, from the rows that are published. Nothing is
// measured here.
import { publishedFleet, publishedLines, publishedRow } from "./published.ts";
import type { RowName } from "./rows.ts";

const QUESTIONS: [question: string, row: RowName][] = [
  ["verify a key in your process, 100,000 keys", "verify/floor-1e5"],
  ["memory of a million keys in your process", "verify/resident-memory"],
  ["create keys, durably, on SQLite", "vendor/mint"],
  ["create keys, durably, on PostgreSQL", "vendor/mint-postgres"],
  ["read a key by its id, on SQLite", "vendor/get-by-id"],
  ["check rate limits over HTTP", "ratelimit/check"],
  ["spend leased units of rate limits in your process", "limiter/lease"],
  ["reported requests counted a second", "ingest/events"],
  ["load the policy of 100,000 keys into a new node", "feed/snapshot"],
  ["p99 of a rate-limit check beside a flood of another workspace", "neighbours/check"],
  ["start from a checkout until ready", "start/checkout-ready"],
  ["memory of an idle server, from a checkout", "start/checkout-memory"],
];
const FLEET = "1,000";

export async function summary(): Promise<string> {
  const rows = QUESTIONS.map(([question, name]) => {
    const { ours, peer, ratio, target, verdict } = publishedRow(name);
    return [question, ours, peer, ratio, target, verdict, `\`${name}\``];
  });
  const [, , delay = ""] = publishedFleet(FLEET);
  const fleet = [`a revocation reaches 99 % of ${FLEET} waiting nodes`, delay, "", "", "", ""];
  const lines = [...rows, [...fleet, "[scale.md](scale.md#propagation-time-by-number-of-nodes)"]];
  const verdicts = publishedLines().flatMap(
    (line) => /^\| `[\w-]+\/[\w-]+` .*\| (met|missed) \|$/.exec(line)?.[1] ?? [],
  );
  const met = verdicts.filter((verdict) => verdict === "met").length;
  return [
    `${met} of the ${verdicts.length} published rows that have a target meet it.`,
    "",
    "| Question | Keyrack | Peer or limit | Ratio | Target | | Row |",
    "|---|---|---|---|---|---|---|",
    ...lines.map((cells) => `| ${cells.join(" | ")} |`),
  ].join("\n");
}
