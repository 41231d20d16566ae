// Parse and validate the text of a setting. A parser throws a message that `loadSettings` prefixes with the name.
import { alternatives } from "../kernel/text/alternatives.ts";
import { parseSettingNetwork } from "../kernel/network/cidr.ts";
import { addressIn, isPublicAddress } from "../kernel/network/public-addresses.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "../kernel/durations.ts";

export type DatabaseSetting =
  | { kind: "default" }
  | { kind: "sqlite"; file: string }
  | { kind: "postgres"; url: string };
type MailSetting = { kind: "file"; dir: string | null } | { kind: "smtp"; url: string } | { kind: "log" };

export function integer(min: number, max: number) {
  return (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max)) throw new Error(`must be a whole number from ${min} to ${max}`);
    return value;
  };
}

export function oneOf<const T extends string>(...values: T[]) {
  return (text: string): T => {
    if (!(values as string[]).includes(text)) throw new Error(`must be ${alternatives(values)}`);
    return text as T;
  };
}

export const text = (value: string): string => value;
/** Relative ones are made absolute for another process (absolute-paths.ts). */
export const path = (value: string): string => value;
export const onOff = (value: string): boolean => oneOf("on", "off")(value) === "on";
export const count = integer(1, 1_000_000_000);
export const zeroOrCount = integer(0, 1_000_000_000);
export const megabytes = integer(8, 1_000_000);
export const zeroOrMegabytes = (value: string): number => (value === "0" ? 0 : integer(8, 1_000_000_000)(value));

/** Unset is null. */
export function optional<T>(parse: (value: string) => T) {
  return (value: string): T | null => (value === "" ? null : parse(value));
}

export function httpUrl(text: string): string | null {
  if (text === "") return null;
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !/^https?:$/.test(url.protocol)) throw new Error("must be an http:// or https:// URL");
  if (url.search || url.hash) throw new Error("must not have a query or a fragment");
  return text.replace(/\/+$/, "");
}

/** Called as it is written. Credentials in it would be logged by the receiver's proxies. */
export function endpoint(text: string): string | null {
  if (httpUrl(text) === null) return null;
  const { username, password } = new URL(text);
  if (username || password) throw new Error("must not contain a user name or a password");
  return text;
}

function httpsUrl(text: string): string | null {
  const url = httpUrl(text);
  if (url && !url.startsWith("https:")) throw new Error("must be an https:// URL");
  return url;
}

/** Fetched by the server itself: an address that is not public would lead into the operator's own network. */
export function publicHttpsUrl(text: string): string | null {
  const url = httpsUrl(text);
  const address = url && addressIn(new URL(url));
  if (address && !isPublicAddress(address)) throw new Error("must not name a private or reserved address");
  return url;
}

const SSL_MODES = ["disable", "prefer", "require", "verify-ca", "verify-full", "no-verify"];

export function database(text: string): DatabaseSetting {
  if (text === "") return { kind: "default" };
  if (text.startsWith("sqlite:") && text.length > 7) return { kind: "sqlite", file: text.slice(7) };
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url && !SSL_MODES.includes(url.searchParams.get("sslmode") ?? "disable"))
    throw new Error(`must have one of these as sslmode: ${SSL_MODES.join(", ")}`);
  if (url && /^postgres(ql)?:$/.test(url.protocol) && url.pathname.length > 1) return { kind: "postgres", url: text };
  throw new Error("must be sqlite:FILE or postgres://USER@HOST/DATABASE");
}

export function redis(text: string): string[] | null {
  if (text === "") return null;
  const urls = text.split(",").map((part) => part.trim());
  for (const url of urls) {
    const { protocol = "", hostname = "", pathname = "" } = URL.canParse(url) ? new URL(url) : {};
    if (!/^rediss?:$/.test(protocol) || hostname === "")
      throw new Error("must be redis:// or rediss:// URLs, separated by commas");
    if (!/^(\/\d*)?$/.test(pathname))
      throw new Error("must name a database by its number, such as redis://HOST:6379/0");
  }
  return urls;
}

export function mail(text: string): MailSetting {
  if (text === "") return { kind: "file", dir: null };
  if (text === "log:") return { kind: "log" };
  if (text.startsWith("file:") && text.length > 5) return { kind: "file", dir: text.slice(5) };
  if (/^smtps?:\/\/./.test(text) && URL.canParse(text)) return { kind: "smtp", url: text };
  throw new Error("must be file:DIR, smtp://…, smtps://… or log:");
}

const UNITS: Record<string, number> = { s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS };

/** In milliseconds, or null for off. */
export function duration(text: string): number | null {
  if (text === "off") return null;
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (!count || !unit || Number(count) === 0) throw new Error("must be a duration such as 30m, 24h or 7d, or off");
  return Number(count) * (UNITS[unit] ?? 0);
}

/** In milliseconds, within bounds that are written as durations. */
export function durationWithin(min: string, max: string) {
  return (text: string): number => {
    const value = text === "off" ? Number.NaN : (duration(text) as number);
    if (!(value >= (duration(min) as number) && value <= (duration(max) as number)))
      throw new Error(`must be a duration from ${min} to ${max}`);
    return value;
  };
}

export function cidrs(text: string): string[] {
  const list = text.split(/[\s,]+/).filter(Boolean);
  const wrong = list.find((cidr) => parseSettingNetwork(cidr) === null);
  if (wrong !== undefined) throw new Error(`"${wrong}" is not an address or a CIDR range`);
  return list;
}

export function metrics(text: string): { host: string; port: number } | null {
  if (text === "off") return null;
  const at = text.lastIndexOf(":");
  const port = integer(0, 65_535)(text.slice(at + 1));
  if (at < 1) throw new Error("must be off or HOST:PORT");
  return { host: text.slice(0, at).replace(/^\[|\]$/g, ""), port };
}

export function region(text: string): string {
  if (!/^[a-z0-9-]{1,32}$/.test(text)) throw new Error("must be 1 to 32 characters of a-z, 0-9 and -");
  return text;
}
