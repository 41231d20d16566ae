// Sends one POST request to an endpoint that the operator has configured. Follows no redirect and reads no body.
const RESPONSE_MAX_MS = 10_000;

export type Posted = { status: number; retryAfter: string | null };

/** Rejects if there is no response in time. */
export async function post(url: string, headers: Record<string, string>, body: string): Promise<Posted> {
  const signal = AbortSignal.timeout(RESPONSE_MAX_MS);
  const sent = { method: "POST", headers: { "user-agent": "keyrack", ...headers }, body, signal };
  const response = await fetch(url, { ...sent, redirect: "manual" });
  await response.body?.cancel();
  return { status: response.status, retryAfter: response.headers.get("retry-after") };
}

/** The cause of a failed request in a few words, because `fetch failed` does not name it. */
export function failureOf(error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: NodeJS.ErrnoException };
  if (name === "TimeoutError") return `no response within ${RESPONSE_MAX_MS / 1000} s`;
  return cause?.code ?? cause?.message ?? message;
}
