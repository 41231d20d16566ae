// Calls of a running instance over HTTP.
import { request, type RequestOptions } from "node:http";

// Answers are looked at field by field, so their bodies are loosely typed on purpose.
// oxlint-disable-next-line typescript/no-explicit-any
export type Reply = { status: number; headers: Headers; body: any; text: string };
export type CallOptions = {
  headers?: Record<string, string>;
  bearer?: string | null;
  raw?: string;
  /** The client's own address: each of 127.0.0.0/8 is one of this machine. */
  from?: string | undefined;
};
export type Call = (bearer: string | null, route: string, body?: unknown, options?: CallOptions) => Promise<Reply>;

/** Calls a route as written: `send(url, "krsk_…", "GET /v1/workspace")`. */
export async function send(
  url: string,
  bearer: string | null,
  route: string,
  body?: unknown,
  options: CallOptions = {},
): Promise<Reply> {
  const [method = "", path = ""] = route.split(" ");
  const credential = options.bearer === undefined ? bearer : options.bearer;
  const headers: Record<string, string> = {};
  if (credential !== null) headers.authorization = `Bearer ${credential}`;
  const content = options.raw ?? (body === undefined ? undefined : JSON.stringify(body));
  if (content !== undefined) {
    headers["content-type"] = "application/json";
    headers["content-length"] = String(Buffer.byteLength(content)); // Node leaves it out of a DELETE
  }
  const sent = { method, headers: { ...headers, ...options.headers }, localAddress: options.from };
  return exchange(url + path, sent, content);
}

/** `node:http` takes less than half the CPU time of `fetch`, which is most of what a call costs. */
function exchange(url: string, options: RequestOptions, content = ""): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, options, (incoming) => {
      let text = "";
      incoming.setEncoding("utf8");
      incoming.on("data", (chunk: string) => (text += chunk));
      incoming.on("error", reject);
      incoming.on("end", () => {
        const received = new Headers();
        for (const [name, values = []] of Object.entries(incoming.headersDistinct))
          for (const value of values) received.append(name, value);
        const isJson = received.get("content-type")?.startsWith("application/json");
        resolve({
          status: incoming.statusCode ?? 0,
          headers: received,
          text,
          body: isJson && text ? JSON.parse(text) : text,
        });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(content);
  });
}
