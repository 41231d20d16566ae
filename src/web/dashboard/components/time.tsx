// A moment, relative to the server's clock; the exact local and UTC time on hover, on focus and for screen
// readers.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { formatAbsolute, formatLocal, formatRelative } from "../../shared/format.ts";
import { serverNow, tick } from "../api/clock.ts";

/** In a table, whose columns are narrow: "5 min ago". */
export const ShortTimes = createContext(false);

type TimeProps = {
  at: string | null;
  /** Shown when there is no time. */
  none?: string;
  /** Also reachable by keyboard; not in tables, where it would add a stop for every cell. */
  focusable?: boolean;
  /** Within a sentence: date and time instead of how long ago. */
  exact?: boolean;
};

export function Time({ at, none = "Never", focusable = false, exact = false }: TimeProps) {
  const isShort = useContext(ShortTimes);
  if (at === null) return <span class="muted">{none}</span>;
  void tick.value; // renders again as time passes
  const ms = Date.parse(at);
  return (
    <time dateTime={at} title={formatAbsolute(ms)} class="time" {...(focusable && { tabIndex: 0 })}>
      {exact ? formatLocal(ms) : formatRelative(ms, serverNow(), isShort)}
    </time>
  );
}
