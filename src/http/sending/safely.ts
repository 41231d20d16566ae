// What both lanes do around sending: a large body is charged to its owner until the client has taken it, and a
// connection whose response fails is closed.
import type { ServerResponse } from "node:http";
import type { Services } from "../../domain/core/context.ts";
import { errorFields } from "../../platform/errors.ts";
import { chargedTo, type HttpRequest } from "../request.ts";
import type { ChargeBody } from "./slices.ts";

type Exchange = {
  readonly request: HttpRequest;
  readonly res: ServerResponse;
  readonly addressOf: (request: HttpRequest) => string;
};

/** Returns what `send` returns; undefined if it threw. */
export function sendSafely<T>(services: Services, exchange: Exchange, send: (charge: ChargeBody) => T): T | undefined {
  try {
    return send(chargeOf(services, exchange));
  } catch (error) {
    const { request, res } = exchange;
    services.log.error("response failed", { request_id: request.id, ...errorFields(error) });
    res.destroy();
    return undefined;
  }
}

/** Charges a body until the response has closed. A client may have left before its response was ready. */
function chargeOf({ largeResponses }: Services, { request, res, addressOf }: Exchange): ChargeBody {
  return (chunks, bytes) => {
    if (res.closed || res.destroyed) return;
    // Pages share their chunks, so the first chunk names what is sent.
    const sent = chunks[0] ?? chunks;
    const release = largeResponses.charge(chargedTo(request, addressOf), sent, bytes, () => res.destroy());
    res.once("close", release);
  };
}
