// A moment, relative to the server's clock; the exact local and UTC time on hover, on focus and for screen
// readers.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { formatAbsolute, formatLocal, formatRelative } from "../../shared/format.ts";
import { serverNow, tick } from "../api/clock.ts";

/**
 * In a table, whose columns are narrow: "5 min ago", and focused by the arrow keys: Tab would stop at every cell. It
 * stops at the first time of a row without controls (table.tsx).
 */
export const ShortTimes = createContext(false);

type TimeProps = {
  at: string | null;
  /** Shown when there is no time. */
  none?: string;
  /** Within a sentence: date and time instead of how long ago. */
  exact?: boolean;
};

export function Time({ at, none = "Never", exact = false }: TimeProps) {
  const isShort = useContext(ShortTimes);
  if (at === null) return <span class="muted">{none}</span>;
  void tick.value; // renders again as time passes
  const ms = Date.parse(at);
  return (
    <time dateTime={at} title={formatAbsolute(ms)} class="time" tabIndex={isShort ? -1 : 0}>
      {exact ? formatLocal(ms) : formatRelative(ms, serverNow(), isShort)}
    </time>
  );
}
