// The secret scanner's webhook, wire-compatible with GitHub's partner programme. The signature over the raw body is the
// only credential, and the body is not parsed before it is verified.
import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import { parseReports, reportLeaks } from "../../domain/leaks/leaks.ts";
import { endpoint } from "../../http/endpoint.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import { fail } from "../../kernel/errors.ts";
import { MIB } from "../../kernel/sizes.ts";

const BODY_MAX = MIB;
const SENDERS = ["scanner", "github"] as const;

/** Identifier and signature, both from the headers of one sender. */
function signatureOf(headers: IncomingHttpHeaders): { identifier: string; signature: string } {
  for (const sender of SENDERS) {
    const identifier = headers[`${sender}-public-key-identifier`];
    const signature = headers[`${sender}-public-key-signature`];
    if (typeof identifier === "string" && typeof signature === "string") return { identifier, signature };
  }
  throw fail("invalid_signature");
}

export const scannerReport = endpoint("POST /v1/webhooks/scanner/secret_scanning", {
  summary: "Receive a secret scanner's report. Leaked live keys are quarantined, and every token is labelled.",
  access: "scanner.report",
  perNetwork: { name: "scanner", limit: 60, windowMs: MINUTE_MS },
  bodyMax: BODY_MAX,
  rawBody: true,
  looseQuery: true,
  body: z.array(
    z.looseObject({
      token: z.string(),
      type: z.string().optional(),
      url: z.string().nullable().optional(),
      source: z.string().nullable().optional(),
    }),
  ),
  output: z.array(
    z.strictObject({
      token_hash: z.string(),
      token_type: z.string(),
      label: z.enum(["true_positive", "false_positive"]),
    }),
  ),
  failures: ["invalid_signature", "scanner_off", "payload_too_large", "unavailable"],
  emits: ["api_key.quarantined", "secret_key.quarantined", "session.revoked", "workspace_invite.revoked"],
  handle: async ({ services, from }, { raw, request }) => {
    if (!services.scannerKeys) throw fail("scanner_off");
    const { identifier, signature } = signatureOf(request.headers);
    const { bytes } = await raw();
    if (!(await services.scannerKeys.verify(identifier, signature, bytes))) throw fail("invalid_signature");
    return reportLeaks({ services, actor: { kind: "scanner" }, from }, parseReports(bytes));
  },
});
