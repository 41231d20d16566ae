// Code to copy, in one piece or in tabs. It contains ids and addresses only, never names that a customer chose.
import { useRef, useState } from "preact/hooks";
import { param, setParams } from "../links.ts";
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
  /** The parameter of the address that has the chosen tab; none where leaving the address would lose something. */
  tabParam?: string;
} & Pick<SnippetProps, "onSelect" | "onCopied">;

export function SnippetTabs({ label, snippets, mask = (code) => code, tabParam, ...events }: SnippetTabsProps) {
  const [own, setOwn] = useState("");
  const wanted = tabParam === undefined ? own : param(tabParam);
  const choose = (name: string): void =>
    tabParam === undefined ? setOwn(name) : setParams({ [tabParam]: name }, { replace: true });
  const names = snippets.map(([name]) => [name, name] as const);
  const [chosen, code] = snippets.find(([name]) => name === wanted) ?? snippets[0] ?? ["", ""];
  return (
    <Tabs label={label} tabs={names} chosen={chosen} onChoose={choose}>
      <Snippet key={chosen} code={code} shown={mask(code)} name={`${chosen} snippet`} {...events} />
    </Tabs>
  );
}
