// The frame of a page's content: heading, actions, title of the document. A page that opens takes the focus to its
// heading, so that screen readers announce it.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useEffect, useRef } from "preact/hooks";
import { membership } from "../api/session.ts";
import { env } from "../here.ts";
import { place } from "../routes.ts";
import { focusHeading } from "../shell/scroll.ts";
import { Icon } from "./icon.tsx";

/** Characters from which on a title is smaller: the names of records have up to 200. */
const LONG = 50;

type PageProps = {
  /** The page's name, or the record's. */
  title: string;
  /** A line below the heading. */
  lead?: ComponentChildren;
  /** Link to the list that the record belongs to. */
  back?: { href: string; label: string };
  actions?: ComponentChildren;
  children?: ComponentChildren;
};

/** Whether the page around shows data of an environment. */
export const EnvContext = createContext(false);

function documentTitle(title: string, hasEnv: boolean): string {
  const here = place.value.kind === "workspace" ? membership.value : null;
  if (!here) return `${title} · Keyrack`;
  return `${title} · ${here.name}${hasEnv && env.value === "test" ? " (test)" : ""} · Keyrack`;
}

/** Sets the title and focuses the heading once per title. */
export function useHeading(title: string) {
  const heading = useRef<HTMLHeadingElement>(null);
  const hasEnv = useContext(EnvContext);
  useEffect(() => {
    document.title = documentTitle(title, hasEnv);
  });
  useEffect(() => {
    // A dialog that opened with the page keeps the focus.
    if (!document.querySelector("dialog[open]")) focusHeading(heading.current);
  }, []);
  return heading;
}

export function Page({ title, lead, back, actions, children }: PageProps) {
  const heading = useHeading(title);
  return (
    <>
      {back && (
        <a class="back" href={back.href}>
          <Icon name="left" />
          {back.label}
        </a>
      )}
      <div class="page-head">
        <h1 ref={heading} class={title.length > LONG ? "grow long" : "grow"} tabIndex={-1}>
          <bdi>{title}</bdi>
        </h1>
        {actions && <div class="buttons">{actions}</div>}
        {lead && <p class="lead">{lead}</p>}
      </div>
      {children}
    </>
  );
}

/** A titled box. */
export function Panel(props: { title: string; actions?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="panel">
      <header>
        <h2>{props.title}</h2>
        {props.actions}
      </header>
      <div class="panel-body">{props.children}</div>
    </section>
  );
}

/** Names and values of a record. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
