// Sends a request again with back-off while the server is busy. Only for requests that may be repeated.
import { setTimeout as sleep } from "node:timers/promises";
import { isFailure, parseJson, request, toExitError } from "../../api/request.ts";
import type { ApiRequest, ApiResponse, Target } from "../../api/request.ts";

const ATTEMPTS = 6;

type NameOf = (path: string) => string;

/** `nameOf`: how an error names the fields of the request. */
export async function sendUntilDone<T>(target: Target, message: ApiRequest, nameOf?: NameOf): Promise<T> {
  return parseJson(await sendWithRetries(target, message, nameOf)) as T;
}

/** The first successful response. */
export async function sendWithRetries(target: Target, message: ApiRequest, nameOf?: NameOf): Promise<ApiResponse> {
  for (let attempt = 1; ; attempt++) {
    const response = await request(target, message);
    if (!isFailure(response)) return response;
    const retryAfter = Number(response.headers["retry-after"]);
    const busy = response.status === 429 || response.status >= 500 || (response.status === 409 && retryAfter > 0);
    if (!busy || attempt === ATTEMPTS) throw toExitError(response, nameOf);
    await sleep(Math.min(retryAfter > 0 ? retryAfter * 1_000 : 200 * 2 ** attempt, 10_000));
  }
}
