// Buttons and links that look like buttons. What the role may not do is disabled with its reason: it keeps its place
// and its focus, and pressing it does nothing.
import type { ComponentChildren, RefObject } from "preact";
import { useId, useRef } from "preact/hooks";
import { offlineSince } from "../api/call.ts";
import { role, session, type Role } from "../api/session.ts";
import { Icon, type IconName } from "./icon.tsx";
import { useFocusAfter } from "./keyboard.ts";

export type ButtonKind = "primary" | "plain" | "quiet" | "danger";

const RANK: Record<Role, number> = { member: 0, admin: 1, owner: 2 };

const OFFLINE = "The server cannot be reached. Try again when you are back online.";

/** Why something cannot be done now, by the person's role or for lack of a connection; null if it can. */
export function roleReason(needs: Role): string | null {
  if (RANK[role.value] >= RANK[needs]) return offlineSince.value === null ? null : OFFLINE;
  if (needs === "owner") return "Only an owner can do this.";
  return "Members can view but not change. Ask an owner or admin.";
}

export type ButtonProps = {
  children?: ComponentChildren;
  kind?: ButtonKind;
  type?: "button" | "submit";
  icon?: IconName;
  /** Behind the words. */
  iconAfter?: IconName;
  /** For a button that shows only an icon. */
  label?: string;
  busy?: boolean;
  /** The least role that may press it. */
  needs?: Role;
  /** Why it cannot be pressed now. */
  disabled?: string | null;
  pressed?: boolean;
  autofocus?: boolean;
  onClick?: (event: MouseEvent) => void;
  buttonRef?: RefObject<HTMLButtonElement>;
};

export function Button(props: ButtonProps) {
  const { children, kind = "plain", type = "button", icon, label, busy = false, needs, onClick } = props;
  const id = useId();
  const own = useRef<HTMLButtonElement>(null);
  const ref = props.buttonRef ?? own;
  useFocusAfter(ref);
  const submits = type === "submit" && session.value !== null;
  const reason = props.disabled ?? (needs || submits ? roleReason(needs ?? "member") : null);
  const blocked = busy || reason !== null;
  const button = (
    <button
      ref={ref}
      // Also while it is blocked: without a submit button, Enter would submit a form that has one field.
      type={type}
      class={`button ${kind}${children === undefined ? " square" : ""}`}
      aria-label={label}
      aria-pressed={props.pressed}
      aria-disabled={blocked ? "true" : undefined}
      aria-describedby={reason === null ? undefined : id}
      data-autofocus={props.autofocus ? "" : undefined}
      onClick={(event) => (blocked ? event.preventDefault() : onClick?.(event))}
    >
      {icon && <Icon name={icon} />}
      {children !== undefined && <span>{children}</span>}
      {props.iconAfter && <Icon name={props.iconAfter} />}
    </button>
  );
  if (reason === null) return button;
  return (
    <span class="has-reason">
      {button}
      <span id={id} class="reason" role="tooltip">
        {reason}
      </span>
    </span>
  );
}

type LinkButtonProps = { href: string; children: ComponentChildren; kind?: ButtonKind; icon?: IconName };

export function LinkButton({ href, children, kind = "plain", icon }: LinkButtonProps) {
  return (
    <a class={`button ${kind}`} href={href}>
      {icon && <Icon name={icon} />}
      <span>{children}</span>
    </a>
  );
}
