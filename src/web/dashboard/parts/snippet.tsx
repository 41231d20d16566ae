// Code to copy, in one piece or in tabs. It contains ids and addresses only, never names that a customer chose.
import { useRef, useState } from "preact/hooks";
import { CopyButton } from "./copy.tsx";
import { Tabs } from "./tabs.tsx";

export function Snippet({ code, name }: { code: string; name: string }) {
  const ref = useRef<HTMLElement>(null);
  return (
    <div class="snippet">
      <pre tabIndex={0} role="region" aria-label={name}>
        <code ref={ref}>{code}</code>
      </pre>
      <CopyButton text={code} name={`Copy ${name}`} kind="quiet" source={() => ref.current} />
    </div>
  );
}

export function SnippetTabs({ label, snippets }: { label: string; snippets: readonly (readonly [string, string])[] }) {
  const [chosen, setChosen] = useState(snippets[0]?.[0] ?? "");
  const names = snippets.map(([name]) => [name, name] as const);
  const code = snippets.find(([name]) => name === chosen)?.[1] ?? "";
  return (
    <Tabs label={label} tabs={names} chosen={chosen} onChoose={setChosen}>
      <Snippet key={chosen} code={code} name={`${chosen} snippet`} />
    </Tabs>
  );
}
