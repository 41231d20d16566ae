// Fetches a text over https from addresses that the caller has checked.
import type { LookupAddress } from "node:dns";
import type { IncomingMessage } from "node:http";
import { request, type RequestOptions } from "node:https";
import type { LookupFunction } from "node:net";
import { MIB } from "../kernel/sizes.ts";

const TEXT_BYTES_MAX = MIB;

/**
 * Connects to the given addresses only: a name that is resolved again may have another address by then. No redirects.
 */
export function getText(
  url: string,
  addresses: readonly LookupAddress[],
  signal: AbortSignal,
  tls: Pick<RequestOptions, "ca"> = {},
): Promise<string> {
  const lookup: LookupFunction = (_host, { all }, done) => {
    const [first] = addresses;
    if (all) done(null, [...addresses]);
    else done(null, first?.address ?? "", first?.family);
  };
  const headers = { accept: "application/json", "user-agent": "keyrack" };
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { ...tls, lookup, headers, signal, agent: false }, (response) => {
      readText(response).then(resolve, reject);
    });
    outgoing.on("error", reject).end();
  });
}

async function readText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    if (response.statusCode !== 200) throw new Error(`it responded with ${response.statusCode}`);
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > TEXT_BYTES_MAX) throw new Error("the response is too long");
      chunks.push(chunk);
    }
  } finally {
    response.destroy();
  }
  return Buffer.concat(chunks).toString("utf8");
}
