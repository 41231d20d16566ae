// `keyrack key revoke --wait`: asks until every node has acknowledged, and shows who has. The server itself waits some
// seconds an answer; asking again for a revoked key changes nothing and tells how far it is.
import { cell } from "../../ui/format.ts";
import { createSpinner } from "../../ui/progress.ts";
import { ExitError, out, safe, table } from "../../ui/output.ts";
import type { Verb } from "../../api/command-spec.ts";
import { askOf, sendVerb, type VerbOptions } from "../../api/generated.ts";

type Node = { node_id: string; env_scope: string; version: number; acked: boolean; last_seen_at: string };
type Propagation = { complete: boolean; waited_ms: number; acked_nodes: number; total_nodes: number; nodes: Node[] };
type Revoked = { id: string; display_prefix: string; propagation: Propagation };

const GIVE_UP_MS = 60_000;
const ANSWER_MS = 45_000;

function nodesTable(nodes: readonly Node[]): string {
  const rows = nodes.map((node) => [
    node.acked ? "ok" : "..",
    safe(node.node_id),
    node.env_scope,
    String(node.version),
    cell(node.last_seen_at),
  ]);
  return table([["", "NODE", "ENV", "VERSION", "LAST SEEN"], ...rows]);
}

export async function revokeAndWait(verb: Verb, args: string[], options: VerbOptions): Promise<void> {
  const started = Date.now();
  const spinner = createSpinner();
  let text = "";
  let revoked: Revoked | undefined;
  spinner.say("revoking …");
  try {
    do {
      ({ text } = await sendVerb({ ...askOf(verb, args, options), timeoutMs: ANSWER_MS }, options));
      revoked = JSON.parse(text) as Revoked;
      const { acked_nodes, total_nodes } = revoked.propagation;
      spinner.say(`${acked_nodes} of ${total_nodes} nodes have acknowledged …`);
    } while (!revoked.propagation.complete && Date.now() - started < GIVE_UP_MS);
  } finally {
    spinner.end();
  }
  const { complete, acked_nodes, total_nodes, nodes } = revoked.propagation;
  const seconds = ((Date.now() - started) / 1_000).toFixed(1);
  if (options.json) out(text.trimEnd());
  else if (options.quiet) out(revoked.id);
  else {
    out(`Revoked ${safe(revoked.display_prefix)}…`);
    if (nodes.length > 0) out(nodesTable(nodes));
    out(`${acked_nodes} of ${total_nodes} nodes have acknowledged after ${seconds} s.`);
  }
  if (!complete) {
    const late = nodes.filter(({ acked }) => !acked).map(({ node_id }) => safe(node_id));
    throw new ExitError(
      `The key is revoked, but ${late.join(", ")} may still admit it. Run the command again to look.`,
      1,
    );
  }
}
