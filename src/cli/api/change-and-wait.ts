// `keyrack key revoke|disable|enable|update --wait`, `keyrack tenant update|suspend|resume --wait` and `keyrack plan
// update --wait`: polls until every node has acknowledged the change, and lists the nodes. The server holds each
// request for some seconds; repeating the change does nothing and returns the current state.
import type { RouteOutput } from "../../client.ts";
import { buildRequest, sendRequest, type Run } from "./send.ts";
import { cell } from "../ui/format.ts";
import { ExitError, escapeControls, print, table } from "../ui/output.ts";
import { createSpinner } from "../ui/progress.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";

type Node = RouteOutput<"GET /v1/propagation">["nodes"][number];
type Counts = { complete: boolean; waited_ms: number; acked_nodes: number; total_nodes: number };
type Receipt = Counts & { unregistered_nodes?: number; nodes: Node[] };
/** The receipt of a key's change, or the receipts of a tenant's or plan's change in each of its projects. */
type Propagation = Receipt | (Counts & { projects: Receipt[] });
type Changed = { id: string; propagation: Propagation } & (
  | { display_prefix: string }
  | { external_id: string }
  | { slug: string }
);

const receiptsOf = (propagation: Propagation): Receipt[] =>
  "projects" in propagation ? propagation.projects : [propagation];

function titleOf(changed: Changed): string {
  if ("external_id" in changed) return changed.external_id;
  return "slug" in changed ? changed.slug : `${changed.display_prefix}…`;
}

const GIVE_UP_MS = MINUTE_MS;
const REQUEST_MS = 45_000;
const NAMED_MAX = 10;

/** The last column names the capabilities that a node would need to get the key, where one lacks any. */
export function nodesTable(nodes: readonly Node[]): string {
  const lacking = nodes.some(({ missing_caps }) => missing_caps.length > 0);
  const rows = nodes.map((node) => [
    node.acked ? "ok" : "..",
    escapeControls(node.node_id),
    node.env_scope,
    String(node.version),
    cell(node.last_seen_at),
    ...(lacking ? [node.missing_caps.join(", ")] : []),
  ]);
  return table([["", "NODE", "ENV", "VERSION", "LAST SEEN", ...(lacking ? ["LACKS"] : [])], ...rows]);
}

const progressText = ({ acked_nodes, total_nodes }: Propagation): string =>
  `Acknowledged by ${acked_nodes} of ${total_nodes} nodes`;

/** Nodes that may not have the change yet. */
function lateNodes(propagation: Propagation): string {
  const { acked_nodes, total_nodes } = propagation;
  const receipts = receiptsOf(propagation);
  const unregistered_nodes = receipts.reduce((sum, receipt) => sum + (receipt.unregistered_nodes ?? 0), 0);
  const late = receipts
    .flatMap(({ nodes }) => nodes)
    .filter(({ acked }) => !acked)
    .map(({ node_id }) => escapeControls(node_id));
  const more = total_nodes - acked_nodes - NAMED_MAX;
  return [
    ...late.slice(0, NAMED_MAX),
    ...(more > 0 ? [`${more} more`] : []),
    ...(unregistered_nodes > 0 ? [`${unregistered_nodes} or more unregistered nodes`] : []),
  ].join(", ");
}

/** By verb: of every command with --wait. */
export const WAIT_TEXTS = {
  revoke: { doing: "Revoking", done: "Revoked", state: "key is revoked", late: "may still accept it" },
  disable: { doing: "Disabling", done: "Disabled", state: "key is disabled", late: "may still accept it" },
  enable: { doing: "Enabling", done: "Enabled", state: "key is enabled", late: "may not accept it yet" },
  suspend: { doing: "Suspending", done: "Suspended", state: "tenant is suspended", late: "may still accept its keys" },
  update: { doing: "Updating", done: "Updated", state: "change is stored", late: "may not have it yet" },
  resume: { doing: "Resuming", done: "Resumed", state: "tenant is resumed", late: "may not accept its keys yet" },
};

export const changeAndWait: Run = async (spec, args, options) => {
  const texts = WAIT_TEXTS[spec.verb as keyof typeof WAIT_TEXTS];
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
  const { complete } = changed.propagation;
  const nodes = receiptsOf(changed.propagation).flatMap((receipt) => receipt.nodes);
  const seconds = ((Date.now() - started) / 1_000).toFixed(1);
  if (options.json) print(text.trimEnd());
  else if (options.quiet) print(changed.id);
  else {
    print(`${texts.done} ${escapeControls(titleOf(changed))}`);
    if (nodes.length > 0) print(nodesTable(nodes));
    print(`${progressText(changed.propagation)} after ${seconds} s.`);
  }
  if (!complete) {
    const late = lateNodes(changed.propagation);
    throw new ExitError(`The ${texts.state}, but ${late} ${texts.late}. Run the command again to check.`, 1);
  }
};
