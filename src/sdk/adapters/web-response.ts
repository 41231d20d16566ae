// Shared by the adapters on Request and Response: conversion to a Response, and capturing a Response so that it can be
// replayed. The last chunk is held back until the response is stored, so a client that has read a whole response can
// rely on its replay.

import type { Claim } from "../idempotency/claim.ts";
import type { Context } from "../context.ts";
import type { IncomingRequest } from "../guard.ts";
import { denialResponse } from "../denials.ts";
import type { BeginResult, IdempotentRequest, PlainResponse, IdempotentRoute } from "../idempotency/idempotency.ts";
import { REQUEST_BODY_MAX, BodyRecorder } from "../idempotency/replay.ts";
import { peerOf, type SocketLike } from "./peer.ts";

/** Statuses with which a Response may not have a body. */
export const BODYLESS: ReadonlySet<number> = new Set([204, 205, 304]);

/** The connection's socket on srvx, the server of h3, which other frameworks run on too. */
export function socketOf(request: Request): SocketLike | undefined {
  return (request as { runtime?: { node?: { req?: { socket?: SocketLike } } } }).runtime?.node?.req?.socket;
}

/** `socket`: of the connection, if the framework runs on node. */
export function toIncomingRequest(request: Request, path: string, socket?: SocketLike | null): IncomingRequest {
  const { headers, method } = request;
  return {
    method,
    path,
    authorization: headers.get("authorization"),
    apiKey: headers.get("x-api-key"),
    peer: peerOf(socket),
    forwardedFor: headers.get("x-forwarded-for"),
    userAgent: headers.get("user-agent"),
  };
}

export function toResponse({ status, headers, body }: PlainResponse): Response {
  return new Response(BODYLESS.has(status) ? null : (body as BodyInit), { status, headers });
}

/** Adds headers to a copy, because the headers of a fetched response are immutable. */
export function withHeaders(response: Response, more: Record<string, string>): Response {
  // A response to an upgrade, whose status is below 200, cannot be copied.
  if (Object.keys(more).length === 0 || response.status < 200) return response;
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(more)) headers.set(name, value);
  const { status, statusText } = response;
  return new Response(response.body, { status, statusText, headers });
}

/**
 * Requests a claim. Reads the body from a clone, so that the handler can read it too; `readUsed` reads a used body,
 * if the framework keeps it.
 */
export async function beginOnWeb(
  route: IdempotentRoute,
  request: Request,
  context: Context | null | undefined,
  readUsed: () => Promise<IdempotentRequest["body"]> = async () => ({ used: true }),
): Promise<BeginResult> {
  const key = request.headers.get("idempotency-key");
  const { pathname, search } = new URL(request.url);
  const read = () => (request.bodyUsed ? readUsed() : readCopy(request));
  const body = key === null ? "" : await read();
  if (body === null) return { kind: "respond", response: denialResponse("body_too_large") };
  return route.begin({ context, method: request.method, path: pathname, query: search.slice(1), body, key });
}

/** Null when too large: the copy of a request body must be bounded. */
async function readCopy(request: Request): Promise<Uint8Array | null> {
  const copy = new BodyRecorder(REQUEST_BODY_MAX);
  const reader = request.clone().body?.getReader();
  for (;;) {
    const next = await reader?.read();
    if (!next || next.done) return copy.bytes();
    copy.add(next.value);
    // Not cancelled: that would close the connection, and with it the 413.
    if (copy.tooLarge) return null;
  }
}

/** Runs a handler under a claim: stores and returns its response; its error releases the claim. */
export async function runClaimed(claim: Claim, run: () => Response | Promise<Response>): Promise<Response> {
  try {
    return await capture(await run(), claim);
  } catch (error) {
    await claim.release();
    throw error;
  }
}

async function capture(response: Response, claim: Claim): Promise<Response> {
  const copy = new BodyRecorder(claim.maxBodyBytes);
  const { status, statusText, headers } = response;
  const store = () => claim.complete(status, Object.fromEntries(headers), copy.bytes());
  if (!response.body) {
    await store();
    return response;
  }
  return new Response(holdBackEnd(response.body.getReader(), copy, store, claim), { status, statusText, headers });
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

function holdBackEnd(
  reader: Reader,
  copy: BodyRecorder,
  store: () => Promise<void>,
  claim: Claim,
): ReadableStream<Uint8Array> {
  let last: Uint8Array | null = null;
  let isCancelled = false;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        // Loops until something is enqueued: a pull that enqueues nothing is not repeated.
        for (let sent = false; !sent; ) {
          const { done, value } = await reader.read();
          if (done) await store();
          // Cancelled while it waited for this chunk: `cancel` reads what follows.
          if (isCancelled) {
            if (value) copy.add(value);
            return;
          }
          if (last) controller.enqueue(last);
          sent = done || last !== null;
          last = value ?? null;
          if (done) return controller.close();
          copy.add(value);
        }
      } catch (error) {
        await claim.release();
        controller.error(error);
      }
    },
    // The client disconnected: the remainder is still stored, as long as it fits.
    async cancel(reason) {
      isCancelled = true;
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          copy.add(value);
          if (copy.tooLarge) return await reader.cancel(reason);
        }
      } catch {
        return await claim.release();
      } finally {
        await store();
      }
    },
  });
}
