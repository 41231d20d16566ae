// Verifying the audit log, on the server and in this browser, and saving it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { formatClock, formatDate, formatNumber, plural } from "../../shared/format.ts";
import { call, request } from "../api/call.ts";
import { problemMessage, toProblem } from "../api/problems.ts";
import { workspaceId } from "../api/session.ts";
import { slug } from "../links.ts";
import { Badge } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { CopyText } from "../components/copy.tsx";
import { download } from "../components/download.ts";
import { Facts, Panel } from "../components/page.tsx";
import { Snippet } from "../components/snippet.tsx";
import { REASONS, verifyHere, type Result } from "./verification.ts";

type Chain = RouteOutput<"GET /v1/audit_logs/chain">;
type State =
  | { name: "idle" | "server" | "saving" | "too_long" }
  | { name: "here"; rows: number; rate: number }
  | { name: "refused"; message: string };
/** The last result of each way to verify: neither replaces the other. */
type Results = { here?: Result; server?: { chain: Chain; at: number } };

const FILE_ROWS_MAX = 50_000;
/** Screen readers read every change of the progress. */
const PROGRESS_MS = 1_000;

type Broken = { seq: number; reason: keyof typeof REASONS };

function BrokenAt({ broken, where }: { broken: Broken; where: string }) {
  return (
    <p class="verdict">
      <Badge tone="bad">Broken</Badge>{" "}
      <span>
        Row {formatNumber(broken.seq)}, {where}: {REASONS[broken.reason] ?? broken.reason} (<code>{broken.reason}</code>
        ).
      </span>
    </p>
  );
}

function Memory({ seen, continues }: { seen: Result["seen"]; continues: boolean | null }) {
  if (!seen || continues === null) return null;
  const row = formatNumber(seen.seq);
  if (continues)
    return (
      <p>
        Continues the log this browser saw on {formatDate(Date.parse(seen.at))} (row {row}).
      </p>
    );
  return (
    <p class="warning">Row {row} is not the row this browser saw. The log was rewritten or restored from a backup.</p>
  );
}

function signatureWords({ checkpoint, signed }: Result["opened"]): string {
  if (!checkpoint) return "It is malformed or of another log.";
  const rows = plural(checkpoint.size, "row");
  if (signed === null) return `${rows}; this browser cannot check the signature.`;
  return `${rows}; the signature is ${signed ? "valid" : "not valid"}.`;
}

function Verified({ result: { verdict, opened, seen, at } }: { result: Result }) {
  const { rows, head, broken, continues } = verdict;
  return (
    <>
      {broken ? (
        <BrokenAt broken={broken} where="in this browser" />
      ) : (
        <p class="verdict">
          <Badge tone="good">
            Verified: {plural(rows, "row")}, in this browser, at {formatClock(Date.parse(at))}
          </Badge>
        </p>
      )}
      <Memory seen={seen} continues={continues} />
      <Facts
        facts={{
          "Head row": formatNumber(head.seq),
          "Head hash": <CopyText text={head.hash} name="Copy head hash" />,
          Checkpoint: signatureWords(opened),
        }}
      />
    </>
  );
}

function Outcome({ state }: { state: State }) {
  if (state.name === "refused") return <p class="error">{state.message}</p>;
  if (state.name === "here")
    return (
      <p>
        {plural(state.rows, "row")} verified, {formatNumber(state.rate)} rows per second
      </p>
    );
  if (state.name === "server") return <p class="muted">The server is verifying the log…</p>;
  return state.name === "saving" ? <p class="muted">Reading the log…</p> : null;
}

function VerifiedByServer({ of: { chain, at } }: { of: NonNullable<Results["server"]> }) {
  const { verified, checked, broken_seq, reason } = chain;
  if (!verified && reason) return <BrokenAt broken={{ seq: broken_seq ?? 0, reason }} where="on the server" />;
  return (
    <p class="verdict">
      {verified ? (
        <Badge tone="good">
          Verified: {plural(checked, "row")}, by the server, at {formatClock(at)}
        </Badge>
      ) : (
        <Badge tone="bad">Not verified by the server</Badge>
      )}
    </p>
  );
}

function TooLong() {
  return (
    <>
      <p>The log has more than {formatNumber(FILE_ROWS_MAX)} rows. Save it on the command line:</p>
      <Snippet name="command" code="keyrack audit export > audit.jsonl" />
    </>
  );
}

/** The export as a file, unless it is too long for one. */
async function saveLog(abort: AbortSignal): Promise<"saved" | "too_long"> {
  const response = await request("GET /v1/audit_logs/export", {}, { signal: abort, isStream: true });
  if (Number(response.headers.get("audit-to-seq")) > FILE_ROWS_MAX) {
    void response.body?.cancel();
    return "too_long";
  }
  download(`audit-${slug.value}.jsonl`, [await response.blob()], "application/x-ndjson");
  return "saved";
}

function useRuns() {
  const [state, setState] = useState<State>({ name: "idle" });
  const abort = useRef(new AbortController());
  useEffect(() => () => abort.current.abort(), []);
  const run = (first: State, work: (signal: AbortSignal) => Promise<State>): void => {
    abort.current = new AbortController();
    const { signal } = abort.current;
    setState(first);
    work(signal).then(
      (next) => signal.aborted || setState(next),
      (error: unknown) =>
        setState(signal.aborted ? { name: "idle" } : { name: "refused", message: problemMessage(toProblem(error)) }),
    );
  };
  const stop = (): void => {
    abort.current.abort();
    setState({ name: "idle" });
  };
  return { state, setState, run, stop };
}

function useChecks() {
  const { state, setState, run, stop } = useRuns();
  const [results, setResults] = useState<Results>({});
  const verify = (): void =>
    run({ name: "here", rows: 0, rate: 0 }, async (signal) => {
      const start = performance.now();
      let shownAt = start;
      const onRows = (rows: number): void => {
        const now = performance.now();
        if (signal.aborted || now - shownAt < PROGRESS_MS) return;
        shownAt = now;
        setState({ name: "here", rows, rate: Math.round((1_000 * rows) / (now - start)) });
      };
      const here = await verifyHere(workspaceId.value ?? "", signal, onRows);
      setResults((known) => ({ ...known, here }));
      return { name: "idle" };
    });
  const askServer = (): void =>
    run({ name: "server" }, async (signal) => {
      const chain = await call("GET /v1/audit_logs/chain", {}, { signal });
      setResults((known) => ({ ...known, server: { chain, at: Date.now() } }));
      return { name: "idle" };
    });
  const save = (): void =>
    run({ name: "saving" }, async (signal) => ({ name: (await saveLog(signal)) === "saved" ? "idle" : "too_long" }));
  return { state, results, verify, askServer, save, stop };
}

/** The buttons, for the page's head, and what they lead to. */
export function useVerification(): { actions: ComponentChildren; results: ComponentChildren } {
  const { state, results, verify, askServer, save, stop } = useChecks();
  const busy = /here|server|saving/.test(state.name) ? "The log is being read. Wait until that has finished." : null;
  const isShown = state.name !== "idle" || results.here || results.server;
  return {
    actions: (
      <>
        {state.name === "here" && <Button onClick={stop}>Stop</Button>}
        <Button disabled={busy} onClick={verify}>
          Verify in this browser
        </Button>
        <Button disabled={busy} onClick={askServer}>
          Verify on the server
        </Button>
        <Button icon="download" disabled={busy} onClick={save}>
          Download
        </Button>
      </>
    ),
    results: (
      <div role="status">
        {isShown && (
          <Panel title="Integrity">
            <Outcome state={state} />
            {results.here && state.name !== "here" && <Verified result={results.here} />}
            {results.server && state.name !== "server" && <VerifiedByServer of={results.server} />}
            {state.name === "too_long" && <TooLong />}
          </Panel>
        )}
      </div>
    ),
  };
}
