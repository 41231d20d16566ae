// What the command palette shows of what it found.
const SHOWN_MAX = 20;
/** Pages, actions and workspaces that stay beside records. More of them, such as workspaces, must not hide a key. */
const LOCAL_MIN = 5;

/** Local items first. */
export function mergeResults<T>(local: readonly T[], records: readonly T[]): T[] {
  const room = Math.max(LOCAL_MIN, SHOWN_MAX - records.length);
  return [...local.slice(0, room), ...records].slice(0, SHOWN_MAX);
}
