// A telemetry event as nodes send it. Every field that the server reads is listed here, and only here.
import type { Env } from "../../kernel/credentials.ts";

/** A valid event. A malformed value of an `unknown` field is ignored: it never refuses a batch. */
export type WireEvent = {
  ts: string;
  project_id: string;
  env: Env;
  tenant_id?: string | null;
  key_id?: string | null;
  display_prefix?: string | null;
  method: string;
  path: string;
  route: string | null;
  status: number;
  duration_ms: number;
  degraded: boolean;
  denial_reason?: string | null;
  request_id: string;
  sample_rate?: number;
  cost?: unknown;
  tags?: unknown;
  network?: unknown;
  user_agent?: unknown;
  would_deny?: unknown;
};
