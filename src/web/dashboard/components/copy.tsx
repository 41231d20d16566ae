// Copies a text. Without the clipboard API (plain HTTP off loopback) it selects the text instead and says what to
// press.
import { useRef, useState } from "preact/hooks";
import { isUuid } from "../../../kernel/ids.ts";
import { Button, type ButtonKind } from "./button.tsx";

const SHOWN_MS = 2_000;
/** For words that a person has to act on. */
const READ_MS = 6_000;

export const isMac = (): boolean => /Mac|iP/.test(navigator.platform);

type CopyProps = {
  text: string;
  label?: string;
  /** What screen readers announce in place of the label. */
  name?: string;
  kind?: ButtonKind;
  /** The element that shows the text, for selecting it. */
  source?: () => Element | null;
  onCopied?: () => void;
  autofocus?: boolean;
};

/** Without a label it shows its icon only, until there is something to say. */
export function CopyButton({
  text,
  label = "Copy",
  name,
  kind = "plain",
  source,
  onCopied,
  autofocus = false,
}: CopyProps) {
  const [announced, setAnnounced] = useState("");
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const say = (words: string, shownMs: number): void => {
    setAnnounced(words);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setAnnounced(""), shownMs);
  };
  const select = (): void => {
    const element = source?.();
    if (element) getSelection()?.selectAllChildren(element);
    say(isMac() ? "Press ⌘C" : "Press Ctrl+C", READ_MS);
  };
  const copy = (): void => {
    const done = (): void => {
      say("Copied", SHOWN_MS);
      onCopied?.();
    };
    // The type claims that it always exists; on plain HTTP it does not.
    const clipboard = navigator.clipboard as Clipboard | undefined;
    if (!clipboard) return select();
    clipboard.writeText(text).then(done, select);
  };
  return (
    <>
      <Button
        kind={kind}
        autofocus={autofocus}
        icon={announced === "Copied" ? "check" : "copy"}
        onClick={copy}
        {...(name && { label: name })}
      >
        {announced || label || undefined}
      </Button>
      <span role="status" class="hide">
        {announced}
      </span>
    </>
  );
}

/** An id or a prefix in the mono font with a small copy button. */
export function CopyText({ text, name }: { text: string; name: string }) {
  const ref = useRef<HTMLElement>(null);
  return (
    <span class="copy-text">
      <code ref={ref} {...(isUuid(text) && { class: "id", title: text })}>
        {text}
      </code>
      <CopyButton text={text} label="" name={name} kind="quiet" source={() => ref.current} />
    </span>
  );
}
