// HTTP over a bare socket: sends bytes exactly as given and splits what comes back into responses.
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { connect, type Socket } from "node:net";
import { DEADLINE_MS, until } from "../waiting.ts";

export type RawResponse = { status: number; head: string; body: string };

export type RawOptions = {
  /** Final responses to wait for; otherwise until the server closes. */
  count?: number;
  /** The request was HEAD: responses have a length but no body. */
  head?: boolean;
  /** Resolves when the next part may be sent; otherwise when the server has read those before it. */
  between?: () => Promise<void>;
};

/**
 * Text is latin1 in both directions, one character per byte. The server, in this process, reads the parts one by one.
 */
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
    socket.setTimeout(DEADLINE_MS, () => socket.destroy(new Error(`no end after: ${received}`)));
    const server = serverSideOf(socket);
    const write = async (texts: readonly string[]): Promise<void> => {
      let sent = 0;
      for (const [i, text] of texts.entries()) {
        if (i > 0) await (options.between?.() ?? server.hasRead(sent));
        if (!socket.destroyed) socket.write(text, "latin1");
        sent += text.length;
      }
    };
    write([parts].flat()).then(
      () => server.end(),
      (error: Error) => socket.destroy(error),
    );
  });
}

/** The other end of a connection to a server in this process. */
function serverSideOf(client: Socket): { hasRead(bytes: number): Promise<void>; end(): void } {
  const accepted: Socket[] = [];
  const accept = (message: unknown): void => void accepted.push((message as { socket: Socket }).socket);
  const channel = "net.server.socket";
  subscribe(channel, accept);
  const end = (): void => void unsubscribe(channel, accept);
  client.once("close", end);
  return {
    hasRead: (bytes) =>
      until(() => {
        const socket = accepted.find(({ remotePort }) => remotePort === client.localPort);
        return client.destroyed || socket?.destroyed === true || (socket?.bytesRead ?? 0) >= bytes;
      }),
    end,
  };
}

/** Status and error code. */
export function codeOf({ status, body }: RawResponse): [number, string | undefined] {
  return [status, (JSON.parse(body) as { error?: { code: string } }).error?.code];
}

/** A request whose last byte is still missing. */
type HeldRequest = { finish(): Promise<RawResponse> };

/**
 * Sends a request but for the last byte of its body. Resolves when the server has begun to serve it: it asks for the
 * body (100 Continue) in the turn of the event loop in which it looks at the credential.
 */
export async function holdLastByte(
  url: string,
  bearer: string,
  route: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<HeldRequest> {
  const { hostname, port, host } = new URL(url);
  const text = JSON.stringify(body);
  const fields = {
    host,
    authorization: `Bearer ${bearer}`,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(text)),
    expect: "100-continue",
    ...headers,
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  const socket = connect(Number(port), hostname);
  socket.setEncoding("latin1").setTimeout(DEADLINE_MS, () => socket.destroy(new Error("no answer")));
  let received = "";
  const until = <T>(found: () => T | undefined): Promise<T> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const value = found();
        if (value !== undefined) resolve(value);
      };
      look(); // a refusal may have come before the last byte was sent
      socket.on("data", look).on("close", look).on("error", reject);
      socket.on("close", () => reject(new Error(`closed after: ${received}`)));
      look(); // the answer may have come before anyone waited for it
    });
  socket.on("data", (more: string) => (received += more));
  socket.write(`${route} HTTP/1.1\r\n${lines.join("")}\r\n${text.slice(0, -1)}`);
  await until(() => (received.startsWith("HTTP/1.1 100 ") ? true : undefined));
  return {
    finish: async () => {
      socket.write(text.slice(-1));
      const response = await until(() => split(received, false).responses[0]);
      socket.destroy();
      return response;
    },
  };
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
