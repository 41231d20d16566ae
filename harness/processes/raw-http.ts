// HTTP over a bare socket: sends bytes exactly as given and splits what comes back into responses.
import { connect } from "node:net";

export type RawResponse = { status: number; head: string; body: string };

export type RawOptions = {
  /** Final responses to wait for; otherwise until the server closes. */
  count?: number;
  /** The request was HEAD: responses have a length but no body. */
  head?: boolean;
};

const TIMEOUT_MS = 10_000;
/** Long enough for the server to have read one part before the next is sent. */
const PAUSE_MS = 15;

/** Text is latin1 in both directions, one character per byte. */
export function sendRaw(
  url: string,
  parts: string | readonly string[],
  options: RawOptions = {},
): Promise<RawResponse[]> {
  const { hostname, port } = new URL(url);
  const { count = Number.POSITIVE_INFINITY, head = false } = options;
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let received = "";
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => {
      received += text;
      const { responses, rest } = split(received, head);
      const isLast = responses.length >= count && rest === "";
      // Where the server announces that it closes, that it does is part of the exchange.
      if (isLast && !/^connection: close\r$/im.test(responses.at(-1)?.head ?? "")) socket.end();
    });
    socket.on("close", () => resolve(split(received, head).responses));
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "ECONNRESET" && error.code !== "EPIPE") reject(error);
    });
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`no end after: ${received}`)));
    void write([parts].flat());
    async function write(texts: readonly string[]): Promise<void> {
      for (const [i, text] of texts.entries()) {
        if (i > 0) await new Promise((next) => setTimeout(next, PAUSE_MS));
        if (!socket.destroyed) socket.write(text, "latin1");
      }
    }
  });
}

/** Complete final responses, and what is left behind the last of them. */
function split(received: string, head: boolean): { responses: RawResponse[]; rest: string } {
  const responses: RawResponse[] = [];
  let rest = received;
  for (;;) {
    const end = rest.indexOf("\r\n\r\n") + 4;
    if (end < 4) break;
    const text = rest.slice(0, end);
    const status = Number(text.slice(9, 12));
    const bodyless = head || status < 200 || status === 204 || status === 304;
    const length = bodyless ? 0 : Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
    if (rest.length < end + length) break;
    if (status >= 200) responses.push({ status, head: text, body: rest.slice(end, end + length) });
    rest = rest.slice(end + length);
  }
  return { responses, rest };
}
