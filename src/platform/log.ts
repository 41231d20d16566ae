// Structured logs on stderr: JSON lines, or short text on a terminal. Every finished line passes the redactor, so that
// a credential passed by mistake is not logged.
import { MIB } from "../kernel/sizes.ts";

export type Level = "debug" | "info" | "warn" | "error";
export type Fields = Record<string, string | number | boolean | null | undefined>;

export interface Log {
  debug(event: string, fields?: Fields): void;
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  error(event: string, fields?: Fields): void;
  /** Lines dropped because the reader is too slow. */
  readonly dropped?: number;
}

const ORDER: Record<Level, number> = { debug: 0, info: 1, warn: 2, error: 3 };
/** Lines that wait for a slow reader; of them, the part that a level may fill: the lowest level is dropped first. */
const WAITING_MAX_BYTES = MIB;
const PART: Record<Level, number> = { debug: 0.25, info: 0.5, warn: 0.75, error: 1 };
// No \b before a credential: in JSON a preceding line break is the letters \n, which would hide the boundary.
// live_ and test_ do not count among the six characters: a display prefix alone is not a credential and stays readable.
const CREDENTIAL =
  /((?:[a-z][a-z0-9]{1,8}_(?:live|test)_|kr[a-z]{0,12}_(?:live_|test_|(?!live_|test_)))[A-Za-z0-9_-]{6})[A-Za-z0-9_-]+/g;
const INVITE = /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.)[A-Za-z0-9_-]{32,}/gi;
// Without a dot it is not a token. It may be part of a checkpoint's base64, which must stay verifiable.
const JWT = /eyJ[A-Za-z0-9_-]{4,}(?:(?:\.|%2[Ee])[A-Za-z0-9_-]*)*/g;
const DOT = /\.|%2E/i;
const URL_PASSWORD = /([a-z][a-z0-9+.-]{0,15}:\/\/[^\s:/@"]{0,200}):[^\s"]{1,300}@/gi; // up to the last @: a password may hold one
const QUERY_PASSWORD = /([?&](?:ssl)?password=)[^&\s"]+/gi;

/** Cuts every credential to its display prefix. */
export function redact(text: string): string {
  return text
    .replace(CREDENTIAL, "$1…")
    .replace(INVITE, "$1…")
    .replace(JWT, (found) => (DOT.test(found) ? "eyJ…" : found))
    .replace(URL_PASSWORD, "$1:…@")
    .replace(QUERY_PASSWORD, "$1…");
}

type Options = {
  level: Level;
  write?: (line: string) => void;
  /** Bytes that were written and not read yet. */
  waiting?: () => number;
  pretty?: boolean;
  now?: () => number;
};

export function createLog({
  level,
  write = toStderr,
  waiting = () => process.stderr.writableLength,
  pretty = false,
  now = Date.now,
}: Options): Log {
  let dropped = 0;
  let reported = 0;
  const lineOf = (at: Level, event: string, fields: Fields): string => {
    const time = new Date(now()).toISOString();
    // JSON leaves the control characters above ASCII as they are, which some terminals obey.
    const line = pretty
      ? prettyLine(time, at, event, fields)
      : escapeControls(JSON.stringify({ time, level: at, event, ...fields }));
    return `${redact(line)}\n`;
  };
  const emit = (at: Level, event: string, fields: Fields = {}): void => {
    if (ORDER[at] < ORDER[level]) return;
    if (waiting() >= PART[at] * WAITING_MAX_BYTES) {
      dropped++;
      return;
    }
    if (dropped > reported) {
      write(lineOf("warn", "log lines dropped", { count: dropped - reported }));
      reported = dropped;
    }
    write(lineOf(at, event, fields));
  };
  return {
    get dropped() {
      return dropped;
    },
    debug: (event, fields) => emit("debug", event, fields),
    info: (event, fields) => emit("info", event, fields),
    warn: (event, fields) => emit("warn", event, fields),
    error: (event, fields) => emit("error", event, fields),
  };
}

function toStderr(line: string): void {
  process.stderr.write(line);
}

/** Escapes control characters, with which a value could forge a line. */
function escapeControls(value: string): string {
  return value.replace(
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function prettyLine(time: string, level: Level, event: string, fields: Fields): string {
  const pairs = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}=${escapeControls(String(value))}`);
  return `${time.slice(11, 19)} ${level.padEnd(5)} ${escapeControls(event)}${pairs.join("")}`;
}

export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
