// Code to copy, in one piece or in tabs. It contains ids and addresses only, never names that a customer chose.
import { useRef, useState } from "preact/hooks";
import { CopyButton } from "./copy.tsx";
import { Tabs } from "./tabs.tsx";

type SnippetProps = {
  code: string;
  name: string;
  /** What is shown instead of the code, where that has a secret in it. */
  shown?: string;
  /** Before what is shown is selected, for copying it by hand. */
  onSelect?: (() => void) | undefined;
  onCopied?: (() => void) | undefined;
};

export function Snippet({ code, name, shown = code, onSelect, onCopied }: SnippetProps) {
  const ref = useRef<HTMLElement>(null);
  const selectable = (): Element | null => {
    onSelect?.();
    return ref.current;
  };
  return (
    <div class={code.includes("\n") ? "snippet" : "snippet one-line"}>
      <pre tabIndex={0} role="region" aria-label={name}>
        <code ref={ref}>{shown}</code>
      </pre>
      <CopyButton text={code} name={`Copy ${name}`} kind="quiet" source={selectable} {...(onCopied && { onCopied })} />
    </div>
  );
}

type SnippetTabsProps = {
  label: string;
  snippets: readonly (readonly [name: string, code: string])[];
  /** Hides secrets in what is shown. */
  mask?: (code: string) => string;
} & Pick<SnippetProps, "onSelect" | "onCopied">;

export function SnippetTabs({ label, snippets, mask = (code) => code, ...events }: SnippetTabsProps) {
  const [chosen, setChosen] = useState(snippets[0]?.[0] ?? "");
  const names = snippets.map(([name]) => [name, name] as const);
  const code = snippets.find(([name]) => name === chosen)?.[1] ?? "";
  return (
    <Tabs label={label} tabs={names} chosen={chosen} onChoose={setChosen}>
      <Snippet key={chosen} code={code} shown={mask(code)} name={`${chosen} snippet`} {...events} />
    </Tabs>
  );
}
