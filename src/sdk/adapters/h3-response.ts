// Converts the return value of an h3 handler to the Response that h3 would send, so that it can be stored for a replay.

/** The response that an h3 event prepares before its handler returns. */
export type PreparedEvent = { res: { status?: number | undefined; headers: Headers; errHeaders?: Headers } };

const JSON_TYPE = "application/json;charset=UTF-8";

/** Follows h3's rules. Moves the prepared headers into the response; otherwise h3 would add them a second time. */
export function materializeResponse(value: unknown, event: PreparedEvent): Response {
  // h3 treats a returned error like a thrown one.
  if (value instanceof Error || typeof value === "symbol") throw value;
  const made = value instanceof Response ? value : new Response(...bodyOf(value, event.res.status ?? 200));
  const headers = new Headers(made.headers);
  // h3 does not add the prepared headers to an error Response.
  const keeps = !(value instanceof Response) || value.status < 400;
  const prepared = [...event.res.headers];
  for (const [name, text] of prepared) {
    if (keeps && name === "set-cookie") headers.append(name, text);
    else if (keeps) headers.set(name, text);
    event.res.headers.delete(name);
  }
  const { status, statusText } = made;
  return new Response(made.body, { status, statusText, headers });
}

function bodyOf(value: unknown, status: number): [BodyInit | null, ResponseInit] {
  if (value === null || value === undefined) return [null, { status }];
  const raw = typeof value === "string" || value instanceof Uint8Array;
  if (raw || value instanceof Blob || value instanceof ReadableStream) return [value as BodyInit, { status }];
  return [JSON.stringify(value), { status, headers: { "content-type": JSON_TYPE } }];
}
