// `keyrack key revoke|disable|enable --wait`: polls until every node has acknowledged the change, and lists the nodes. The
// server holds each request for some seconds; repeating the change does nothing and returns the current state.
import type { CommandSpec } from "../../api/command-spec.ts";
import { buildRequest, sendRequest, type ApiOptions } from "../../api/generated.ts";
import { cell } from "../../ui/format.ts";
import { ExitError, escapeControls, print, table } from "../../ui/output.ts";
import { createSpinner } from "../../ui/progress.ts";

type Node = { node_id: string; env_scope: string; version: number; acked: boolean; last_seen_at: string };
type Propagation = {
  complete: boolean;
  unregistered_nodes?: number;
  waited_ms: number;
  acked_nodes: number;
  total_nodes: number;
  nodes: Node[];
};
type Changed = { id: string; display_prefix: string; propagation: Propagation };

const GIVE_UP_MS = 60_000;
const REQUEST_MS = 45_000;
const NAMED_MAX = 10;

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

/** Who may not have the change yet. */
function lateNodes({ nodes, acked_nodes, total_nodes, unregistered_nodes = 0 }: Propagation): string {
  const late = nodes.filter(({ acked }) => !acked).map(({ node_id }) => escapeControls(node_id));
  const more = total_nodes - acked_nodes - NAMED_MAX;
  return [
    ...late.slice(0, NAMED_MAX),
    ...(more > 0 ? [`${more} more`] : []),
    ...(unregistered_nodes > 0 ? [`${unregistered_nodes} or more unregistered nodes`] : []),
  ].join(", ");
}

const TEXTS = {
  revoke: { doing: "Revoking", done: "Revoked", state: "revoked", late: "may still accept it" },
  disable: { doing: "Disabling", done: "Disabled", state: "disabled", late: "may still accept it" },
  enable: { doing: "Enabling", done: "Enabled", state: "enabled", late: "may not accept it yet" },
};
export type Change = keyof typeof TEXTS;

export async function changeAndWait(
  change: Change,
  spec: CommandSpec,
  args: string[],
  options: ApiOptions,
): Promise<void> {
  const texts = TEXTS[change];
  const started = Date.now();
  const spinner = createSpinner();
  let text = "";
  let changed: Changed | undefined;
  spinner.update(`${texts.doing} …`);
  try {
    do {
      ({ text } = await sendRequest({ ...buildRequest(spec, args, options), timeoutMs: REQUEST_MS }, options));
      changed = JSON.parse(text) as Changed;
      spinner.update(`${progressText(changed.propagation)} …`);
    } while (!changed.propagation.complete && Date.now() - started < GIVE_UP_MS);
  } finally {
    spinner.end();
  }
  const { complete, nodes } = changed.propagation;
  const seconds = ((Date.now() - started) / 1_000).toFixed(1);
  if (options.json) print(text.trimEnd());
  else if (options.quiet) print(changed.id);
  else {
    print(`${texts.done} ${escapeControls(changed.display_prefix)}…`);
    if (nodes.length > 0) print(nodesTable(nodes));
    print(`${progressText(changed.propagation)} after ${seconds} s.`);
  }
  if (!complete) {
    const late = lateNodes(changed.propagation);
    throw new ExitError(`The key is ${texts.state}, but ${late} ${texts.late}. Run the command again to check.`, 1);
  }
}
