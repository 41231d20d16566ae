// Web origins, compared as browsers serialise them: lower-case host, default port left out.
const ORIGIN = /^(https?):\/\/([A-Za-z0-9.-]{1,253})(?::([0-9]{1,5}))?$/;
const DEFAULT_PORT: Record<string, string> = { http: "80", https: "443" };

/** The origin in its canonical spelling; null for anything else. */
export function normalizeOrigin(text: string): string | null {
  const [, scheme, host, port] = ORIGIN.exec(text) ?? [];
  if (!scheme || !host || text.length > 255 || Number(port ?? 0) > 65_535) return null;
  const number = port === undefined ? "" : String(Number(port));
  return `${scheme}://${host.toLowerCase()}${number === "" || number === DEFAULT_PORT[scheme] ? "" : `:${number}`}`;
}

/** Plain http is allowed only on the same machine, for development. */
export function isInsecureRemote(origin: string): boolean {
  return origin.startsWith("http://") && !/^http:\/\/(localhost|127(\.\d+){3})(:\d+)?$/.test(origin);
}
