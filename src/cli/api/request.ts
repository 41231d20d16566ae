// One request to a Keyrack server, on node:http: fetch would cost every command 30 ms of start.
import type { IncomingHttpHeaders, RequestOptions } from "node:http";
import { ExitError } from "../ui/output.ts";

export type Target = { url: string; bearer: string | null };
export type Answer = { status: number; headers: IncomingHttpHeaders; text: string };
export type Ask = {
  method: string;
  path: string;
  query?: Record<string, string | string[] | undefined>;
  body?: unknown;
  idempotencyKey?: string | undefined;
  timeoutMs?: number;
};

const ANSWER_MAX = 64 * 1024 * 1024;

function urlOf(base: string, { path, query = {} }: Ask): URL {
  if (!URL.canParse(base) || !/^https?:$/.test(new URL(base).protocol))
    throw new ExitError(`${base} is not an http:// or https:// address.`, 2);
  const url = new URL(base.replace(/\/+$/, "") + path);
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== undefined) url.searchParams.append(name, item);
    }
  }
  return url;
}

function headersOf({ bearer }: Target, { idempotencyKey }: Ask, body: string | undefined): Record<string, string> {
  return {
    accept: "application/json",
    ...(bearer && { authorization: `Bearer ${bearer}` }),
    ...(body !== undefined && {
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
    }),
    ...(idempotencyKey && { "idempotency-key": `"${idempotencyKey}"` }),
  };
}

/** Any answer of the server, refusals too. Throws exit 3 where there is none. */
export async function request(target: Target, ask: Ask): Promise<Answer> {
  const url = urlOf(target.url, ask);
  const body = ask.body === undefined ? undefined : JSON.stringify(ask.body);
  // Not by import(): that reads every export, and one of them loads the whole of fetch.
  const { request: open } = process.getBuiltinModule(url.protocol === "https:" ? "node:https" : "node:http");
  const options: RequestOptions = { method: ask.method, headers: headersOf(target, ask, body) };
  const signal = AbortSignal.timeout(ask.timeoutMs ?? 30_000);
  return new Promise((resolve, reject) => {
    const unreachable = (error: NodeJS.ErrnoException): void => {
      const why = signal.aborted ? "no answer in time" : (error.code ?? error.message);
      reject(new ExitError(`${url.origin} cannot be reached (${why}). Is it running? Set KEYRACK_URL or --url.`, 3));
    };
    const sent = open(url, { ...options, signal }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > ANSWER_MAX) response.destroy(new Error("the answer is too large"));
      });
      response.on("error", unreachable);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
      });
    });
    sent.on("error", unreachable);
    sent.end(body);
  });
}

export function isRefusal({ status }: Answer): boolean {
  return status < 200 || status > 299;
}

type Envelope = { error?: { message?: string; details?: { path: string; message: string }[] } };

/** The refusal in one line, with the fields it names. */
export function refusalOf(answer: Answer): ExitError {
  let error: Envelope["error"];
  try {
    ({ error } = JSON.parse(answer.text) as Envelope);
  } catch {
    // Not our envelope: something else answers at this address.
  }
  if (!error?.message) return new ExitError(`The server answered ${answer.status}, not as Keyrack does.`, 1);
  const details = (error.details ?? []).map(({ path, message }) => `${path} ${message}`.trim());
  const hint = answer.status === 401 ? " Check KEYRACK_SECRET_KEY, or run: keyrack login" : "";
  return new ExitError(`${error.message}${details.length > 0 ? ` ${details.join("; ")}.` : ""}${hint}`, 1);
}

/** The parsed body of a good answer. A refusal is thrown, and so is the 200 of somebody else at this address. */
export function jsonOf(answer: Answer): unknown {
  if (isRefusal(answer)) throw refusalOf(answer);
  try {
    return JSON.parse(answer.text) as unknown;
  } catch {
    throw refusalOf(answer);
  }
}

export async function fetchJson<T>(target: Target, ask: Ask): Promise<T> {
  return jsonOf(await request(target, ask)) as T;
}
