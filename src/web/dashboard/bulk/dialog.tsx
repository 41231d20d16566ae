// The dialog for one action on many keys: how many there are, progress, and the nodes as they acknowledge it.
import { formatNumber, plural } from "../../shared/format.ts";
import { DAY_MS } from "../../../kernel/durations.ts";
import { serverNow } from "../api/clock.ts";
import { problemMessage } from "../api/problems.ts";
import { useKeys } from "../api/records.ts";
import { useUnsaved } from "../api/unsaved.ts";
import { Confirm } from "../forms/confirm.tsx";
import { ReasonField } from "../forms/common-fields.tsx";
import { env } from "../links.ts";
import { Button } from "../components/button.tsx";
import { Dialog, DoneButton } from "../components/dialog.tsx";
import { UserText } from "../components/text.tsx";
import { SHOWN, useBulkRun, type BulkAction, type BulkFilter, type Found, type Run } from "./run.ts";
import { ProjectsPropagation } from "../keys/propagation.tsx";

const refused = (count: number): string => `Requests with ${count === 1 ? "this key" : "these keys"} are refused`;

export const WORDS = {
  revoke: {
    title: "Revoke selected",
    verb: "Revoke",
    done: "revoked",
    none: "None of them can be revoked: they are revoked already.",
    effect: (count: number): string => `${refused(count)} from now on. This cannot be undone.`,
  },
  disable: {
    title: "Disable selected",
    verb: "Disable",
    done: "disabled",
    none: "None of them can be disabled: they are disabled or revoked already.",
    effect: (count: number): string => `${refused(count)} until ${count === 1 ? "it is" : "they are"} enabled again.`,
  },
} as const;

const USED_DAYS = 30;

export type BulkProps = {
  action: BulkAction;
  filter: BulkFilter;
  /** Chosen by filters instead of one by one: then the number has to be typed. */
  whole: boolean;
  onClose: () => void;
  onDone: () => void;
};

function KeyList({ found }: { found: Found }) {
  // As in the table, which has the newest first.
  const shown = found.keys.toReversed().slice(0, SHOWN);
  const more = found.matched - shown.length;
  return (
    <ul class="plain-list">
      {shown.map(({ id, name, display_prefix }) => (
        <li key={id}>
          {name !== null && <UserText>{name}</UserText>} <code>{display_prefix}…</code>
        </li>
      ))}
      {more > 0 && <li class="muted">and {formatNumber(more)} more</li>}
    </ul>
  );
}

/** `named`: of how many keys the last use is known. */
function inUseWords(used: number, named: number, matched: number): string {
  const span = `used in the last ${USED_DAYS} days.`;
  const isAll = named === matched;
  if (matched === 1) return used === 1 ? `It was ${span}` : `Not ${span}`;
  if (used === 0) return `${isAll ? "None" : `None of the ${formatNumber(named)} looked up`} was ${span}`;
  const count = `${isAll ? "" : "At least "}${formatNumber(used)}`;
  return `${count} of ${plural(matched, "key")} ${used === 1 ? "was" : "were"} ${span}`;
}

/** What stops working. */
function InUse({ found: { keys, matched } }: { found: Found }) {
  const known = useKeys(keys.map(({ id }) => id));
  if (known.size === 0)
    return (
      <p class="muted">{`Not known whether ${matched === 1 ? "it" : "any"} was used in the last ${USED_DAYS} days.`}</p>
    );
  const since = serverNow() - USED_DAYS * DAY_MS;
  const used = [...known.values()].filter(({ last_used_at }) => Date.parse(last_used_at ?? "") > since).length;
  return <p>{inUseWords(used, known.size, matched)}</p>;
}

type ProgressProps = { run: Run; found: Found; action: BulkAction; stop: () => void; resume: () => void };

function Progress({ run, found, action, stop, resume }: ProgressProps) {
  const { done, state, problem } = run;
  const text = `${formatNumber(done ?? 0)} of ${plural(found.matched, "key")} ${WORDS[action].done}`;
  return (
    <>
      <progress max={found.matched} value={done ?? 0} aria-label={text} />
      <p role="status">{text}</p>
      {problem && <p role="alert">{problemMessage(problem)} The others are unchanged.</p>}
      <div class="buttons">
        {state === "running" ? (
          <Button onClick={stop}>Stop</Button>
        ) : (
          <Button kind="primary" autofocus onClick={resume}>
            {problem ? "Try again" : "Continue"}
          </Button>
        )}
      </div>
    </>
  );
}

/** Before anything has changed: the count, or why there is none. */
function Counted({ run, action, onClose }: { run: Run; action: BulkAction; onClose: () => void }) {
  return (
    <Dialog title={WORDS[action].title} onClose={onClose} env={env.value}>
      {run.problem && <p role="alert">{problemMessage(run.problem)}</p>}
      {!run.problem && <p role="status">{run.found ? WORDS[action].none : "Counting the keys…"}</p>}
      <div class="buttons">
        <Button autofocus onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

export function BulkKeys({ action, filter, whole, onClose, onDone }: BulkProps) {
  const { run, start, resume, stop } = useBulkRun(action, filter);
  const { found, done, state } = run;
  const words = WORDS[action];
  useUnsaved(state === "running", "bulk");
  if (!found || found.matched === 0) return <Counted run={run} action={action} onClose={onClose} />;
  if (done === null)
    return (
      <Confirm
        title={words.title}
        submit={`${words.verb} ${plural(found.matched, "key")}`}
        env={env.value}
        {...(whole && { typed: String(found.matched) })}
        fields={<ReasonField />}
        onClose={onClose}
        send={async ({ reason = "" }) => start(found, reason)}
      >
        <KeyList found={found} />
        <InUse found={found} />
        <p>{words.effect(found.matched)}</p>
      </Confirm>
    );
  return (
    <Dialog
      title={words.title}
      onClose={state === "done" ? onDone : onClose}
      locked={state === "running"}
      env={env.value}
    >
      {state !== "done" && (
        <Progress run={run} found={found} action={action} stop={stop} resume={() => resume(found)} />
      )}
      {state === "done" && (
        <>
          <p role="status">
            {plural(done, "key")} {words.done}.
          </p>
          <ProjectsPropagation projectIds={run.projects} env={env.value} />
          <DoneButton onClick={onDone} />
        </>
      )}
    </Dialog>
  );
}
