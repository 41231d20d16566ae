// `keyrack key revoke --wait`: polls until every node has acknowledged the revocation, and lists the nodes. The server
// holds each request for some seconds; repeating the revocation changes nothing and returns the current state.
import type { CommandSpec } from "../../api/command-spec.ts";
import { buildRequest, sendRequest, type ApiOptions } from "../../api/generated.ts";
import { cell } from "../../ui/format.ts";
import { ExitError, escapeControls, print, table } from "../../ui/output.ts";
import { createSpinner } from "../../ui/progress.ts";

type Node = { node_id: string; env_scope: string; version: number; acked: boolean; last_seen_at: string };
type Propagation = { complete: boolean; waited_ms: number; acked_nodes: number; total_nodes: number; nodes: Node[] };
type Revoked = { id: string; display_prefix: string; propagation: Propagation };

const GIVE_UP_MS = 60_000;
const REQUEST_MS = 45_000;

function nodesTable(nodes: readonly Node[]): string {
  const rows = nodes.map((node) => [
    node.acked ? "ok" : "..",
    escapeControls(node.node_id),
    node.env_scope,
    String(node.version),
    cell(node.last_seen_at),
  ]);
  return table([["", "NODE", "ENV", "VERSION", "LAST SEEN"], ...rows]);
}

const progressText = ({ acked_nodes, total_nodes }: Propagation): string =>
  `Acknowledged by ${acked_nodes} of ${total_nodes} nodes`;

export async function revokeAndWait(spec: CommandSpec, args: string[], options: ApiOptions): Promise<void> {
  const started = Date.now();
  const spinner = createSpinner();
  let text = "";
  let revoked: Revoked | undefined;
  spinner.update("Revoking …");
  try {
    do {
      ({ text } = await sendRequest({ ...buildRequest(spec, args, options), timeoutMs: REQUEST_MS }, options));
      revoked = JSON.parse(text) as Revoked;
      spinner.update(`${progressText(revoked.propagation)} …`);
    } while (!revoked.propagation.complete && Date.now() - started < GIVE_UP_MS);
  } finally {
    spinner.end();
  }
  const { complete, nodes } = revoked.propagation;
  const seconds = ((Date.now() - started) / 1_000).toFixed(1);
  if (options.json) print(text.trimEnd());
  else if (options.quiet) print(revoked.id);
  else {
    print(`Revoked ${escapeControls(revoked.display_prefix)}…`);
    if (nodes.length > 0) print(nodesTable(nodes));
    print(`${progressText(revoked.propagation)} after ${seconds} s.`);
  }
  if (!complete) {
    const late = nodes.filter(({ acked }) => !acked).map(({ node_id }) => escapeControls(node_id));
    throw new ExitError(
      `The key is revoked, but ${late.join(", ")} may still accept it. Run the command again to check.`,
      1,
    );
  }
}
