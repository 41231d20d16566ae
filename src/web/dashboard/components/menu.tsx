// A menu button with a popover: arrow keys, Home, End, Escape and type-ahead.
import { Fragment, type ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./icon.tsx";

export type MenuItem = {
  label: string;
  hint?: string;
  icon?: IconName;
  href?: string;
  onSelect?: () => void;
  danger?: boolean;
  /** Why it cannot be chosen. */
  disabled?: string | null;
  /** For one of several alternatives. */
  checked?: boolean;
};

/** Groups are separated by a line. */
type MenuProps = {
  label: string;
  groups: readonly (readonly MenuItem[])[];
  /** Headings of groups, by their index. */
  headings?: Readonly<Record<number, string>>;
  children?: ComponentChildren;
  className?: string;
};

const GAP = 4;
const EDGE = 8;

/** Below the button, or above it if there is more room; never outside the window. */
function position(button: HTMLElement, menu: HTMLElement): void {
  const at = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = at.bottom + GAP + height <= innerHeight || at.top < innerHeight - at.bottom;
  const top = below ? at.bottom + GAP : at.top - GAP - height;
  const left = at.left + width <= innerWidth - EDGE ? at.left : at.right - width;
  menu.style.top = `${Math.max(EDGE, Math.min(top, innerHeight - EDGE - height))}px`;
  menu.style.left = `${Math.max(EDGE, left)}px`;
}

const itemsOf = (menu: HTMLElement): HTMLElement[] => [...menu.querySelectorAll<HTMLElement>("[role^=menuitem]")];

function moveFocus(menu: HTMLElement, key: string): boolean {
  const items = itemsOf(menu);
  const at = items.indexOf(document.activeElement as HTMLElement);
  const next: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: -1 };
  let target = next[key] === undefined ? undefined : items.at(next[key] % items.length);
  if (key.length === 1) {
    const order = [...items.slice(at + 1), ...items.slice(0, at + 1)];
    target = order.find((item) => item.innerText.trim().toLowerCase().startsWith(key.toLowerCase()));
  }
  target?.focus();
  return target !== undefined;
}

function Content({ item: { label, hint, icon, checked }, id }: { item: MenuItem; id: string }) {
  return (
    <>
      {icon ? (
        <Icon name={icon} />
      ) : (
        checked !== undefined && <span class="tick">{checked && <Icon name="check" />}</span>
      )}
      <span class="grow">
        <bdi>{label}</bdi>
        {hint && (
          // Hidden from the name, which is the label alone; what it describes still refers to it.
          <span id={id} class="menu-hint" aria-hidden="true">
            {hint}
          </span>
        )}
      </span>
    </>
  );
}

/** `reasonId`: the element that says why it is disabled. */
function Item({ item, reasonId, close }: { item: MenuItem; reasonId: string; close: () => void }) {
  const { hint, href, onSelect, danger = false, disabled = null, checked } = item;
  const id = useId();
  const content = <Content item={item} id={id} />;
  const common = {
    class: danger ? "menu-item danger" : "menu-item",
    tabIndex: -1,
    "aria-describedby": disabled === null ? hint && id : reasonId,
  };
  if (href !== undefined)
    return (
      <a {...common} role="menuitem" aria-current={checked ? "true" : undefined} href={href} onClick={close}>
        {content}
      </a>
    );
  const press = (): void => {
    if (disabled !== null) return;
    close();
    onSelect?.();
  };
  return (
    <button
      {...common}
      aria-disabled={disabled === null ? undefined : "true"}
      onClick={press}
      type="button"
      role={checked === undefined ? "menuitem" : "menuitemradio"}
      aria-checked={checked}
    >
      {content}
    </button>
  );
}

function Groups({ groups, headings = {}, close }: Pick<MenuProps, "groups" | "headings"> & { close: () => void }) {
  const id = useId();
  // Each reason is printed once, below the last item that it disables.
  const lastOf = new Map(groups.flat().map((item) => [item.disabled ?? "", item]));
  const reasonId = ({ disabled }: MenuItem): string => `${id}-${[...lastOf.keys()].indexOf(disabled ?? "")}`;
  return (
    <>
      {groups.map(
        (group, index) =>
          group.length > 0 && (
            <div key={index} role="group" class="menu-group" aria-label={headings[index]}>
              {headings[index] && (
                <div class="menu-heading small muted" aria-hidden="true">
                  {headings[index]}
                </div>
              )}
              {group.map((item, i) => (
                <Fragment key={i}>
                  <Item item={item} reasonId={reasonId(item)} close={close} />
                  {item.disabled && lastOf.get(item.disabled) === item && (
                    <p id={reasonId(item)} class="menu-hint menu-reason" aria-hidden="true">
                      {item.disabled}
                    </p>
                  )}
                </Fragment>
              ))}
            </div>
          ),
      )}
    </>
  );
}

function usePopover() {
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const close = (): void => {
    menu.current?.hidePopover();
    button.current?.focus();
  };
  const open = (last: boolean): void => {
    if (!menu.current || !button.current) return;
    menu.current.showPopover();
    position(button.current, menu.current);
    itemsOf(menu.current)
      .at(last ? -1 : 0)
      ?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      event.stopPropagation();
      close();
    } else if (!event.ctrlKey && !event.metaKey && menu.current && moveFocus(menu.current, event.key)) {
      event.preventDefault();
    }
  };
  return { button, menu, close, open, onKeyDown };
}

export function Menu({ label, groups, headings, children, className = "button quiet square" }: MenuProps) {
  const { button, menu, close, open, onKeyDown } = usePopover();
  const [expanded, setExpanded] = useState(false);
  return (
    <>
      <button
        ref={button}
        type="button"
        class={className}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={expanded}
        onClick={() => open(false)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
          event.preventDefault();
          open(event.key === "ArrowUp");
        }}
      >
        {children ?? <Icon name="more" />}
      </button>
      <div
        ref={menu}
        popover="auto"
        role="menu"
        aria-label={label}
        class="menu"
        onKeyDown={onKeyDown}
        onToggle={({ newState }) => setExpanded(newState === "open")}
      >
        <Groups groups={groups} {...(headings && { headings })} close={close} />
      </div>
    </>
  );
}
