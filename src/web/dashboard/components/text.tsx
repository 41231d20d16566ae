// Texts of people and customers: isolated from the direction of what surrounds them, and cut when they are long.
import { useState } from "preact/hooks";

const SHOWN_MAX = 200;

export function UserText({ children }: { children: string }) {
  const [whole, setWhole] = useState(false);
  const characters = [...children];
  if (characters.length <= SHOWN_MAX || whole) return <bdi class="user-text">{children}</bdi>;
  return (
    <>
      <bdi class="user-text">{characters.slice(0, SHOWN_MAX).join("")}…</bdi>{" "}
      <button type="button" class="link" onClick={() => setWhole(true)}>
        Show all
      </button>
    </>
  );
}

/** In one line of a cell; the title has the whole. */
export function Cut({ children }: { children: string }) {
  return (
    <bdi class="cut" title={children}>
      {children}
    </bdi>
  );
}

/** The title of a dialog about a record: "Rotate CI". */
export function Named({ verb, name }: { verb: string; name: string }) {
  return (
    <>
      {verb} <bdi>{name}</bdi>
    </>
  );
}

/** A name, or another text if there is none. */
export function Name({ name, fallback }: { name: string | null; fallback: string }) {
  return name === null || name === "" ? <bdi class="muted">{fallback}</bdi> : <UserText>{name}</UserText>;
}

/** The name that a person chose, if there is anything to see in it. */
export const shownName = (name: string | null): string | null =>
  /[^\p{C}\p{Z}\p{DI}\u2800]/u.test(name ?? "") ? name : null;

/** A person's address, below their name: others may choose the same name. */
export function AddressBelow({ of: { name, email } }: { of: { name: string | null; email: string } }) {
  if (shownName(name) === null) return null;
  return (
    <span class="under small">
      <UserText>{email}</UserText>
    </span>
  );
}

/** Where a scanner found a key: a link only if the address is safe. In a cell, its path is on a second line. */
export function FoundAt({ reason, isCell = false }: { reason: string | null; isCell?: boolean }) {
  const place = (reason ?? "").replace(/^secret_scanning: /, "");
  const url = URL.canParse(place) ? new URL(place) : null;
  if (url?.protocol !== "https:") return <UserText>{place === "" ? "Not reported" : place}</UserText>;
  return (
    <>
      <a href={url.href} target="_blank" rel="noopener noreferrer">
        {url.host}
      </a>
      <span class={isCell ? "under small" : undefined}>
        <UserText>{url.pathname}</UserText>
      </span>
    </>
  );
}
