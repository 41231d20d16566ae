// The frame of a page's content: heading, actions, title of the document. A page that opens takes the focus to its
// heading, so that screen readers announce it.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useEffect, useErrorBoundary, useRef } from "preact/hooks";
import { membership } from "../api/session.ts";
import { env } from "../links.ts";
import { place } from "../routes.ts";
import { Button } from "./button.tsx";
import { focusHeading } from "./scroll.ts";
import { Icon } from "./icon.tsx";

/** Characters from which on a title is smaller: the names of records have up to 200. */
const LONG = 50;

export const NOT_FOUND = "It does not exist, was deleted, or belongs to another workspace.";

type PageProps = {
  /** The page's name, or the record's. */
  title: string;
  /** A line below the heading. */
  lead?: ComponentChildren;
  /** Link to the list that the record belongs to. */
  back?: { href: string; label: string };
  actions?: ComponentChildren;
  children?: ComponentChildren;
  /** Its record does not exist. */
  isMissing?: boolean;
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
  // Read while it is rendered, so that a new name of the workspace renders it again.
  const text = documentTitle(title, hasEnv);
  useEffect(() => {
    document.title = text;
  });
  useEffect(() => {
    // A dialog that opened with the page keeps the focus, and so does the switch that changed its environment.
    if (!document.querySelector("dialog[open], .environment :focus")) focusHeading(heading.current);
  }, []);
  return heading;
}

export function Page({ isMissing = false, back, ...page }: PageProps) {
  const { title, lead, actions, children }: PageProps = isMissing ? { title: "Not found", lead: NOT_FOUND } : page;
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

function Broken() {
  return (
    <div role="alert" class="stack">
      <p>This part of the page failed.</p>
      <div class="buttons">
        <Button onClick={() => location.reload()}>Reload</Button>
      </div>
    </div>
  );
}

/** What fails to render, as on a value that this version does not know, leaves the other parts of the page. */
export function Guard({ children }: { children: ComponentChildren }) {
  const [error] = useErrorBoundary();
  return error === undefined ? <>{children}</> : <Broken />;
}

/** A titled box. */
export function Panel(props: { title: string; actions?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="panel">
      <header>
        <h2>{props.title}</h2>
        {props.actions}
      </header>
      <div class="panel-body">
        <Guard>{props.children}</Guard>
      </div>
    </section>
  );
}

/** Names and values of a record. A value that is null, undefined or false is left out with its name. */
export function Facts({ facts }: { facts: Readonly<Record<string, ComponentChildren>> }) {
  return (
    <dl class="facts">
      {Object.entries(facts).map(
        ([name, value]) =>
          value != null &&
          value !== false && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
