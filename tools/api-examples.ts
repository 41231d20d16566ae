// Responses that docs/api.md shows: the records that most programs read. Typed by the endpoints that return them, and
// validated against their schemas by test/house/openapi.test.ts.
import type { RouteOutput } from "../src/client.ts";

const tenant: RouteOutput<"GET /v1/tenants/{id}"> = {
  object: "tenant",
  id: "01a1ef78-b5f0-7229-ab9e-4cf22fe03145",
  external_id: "customer-17",
  name: "Example GmbH",
  meta: {},
  embed_epoch: 1,
  created_at: "2026-11-18T16:23:47.952Z",
  updated_at: "2026-11-18T16:23:47.952Z",
  suspended_at: null,
  suspended_reason: null,
  allowed_cidrs: [],
  ip_mode: "enforce",
};

const key: RouteOutput<"GET /v1/keys/{id}"> = {
  object: "api_key",
  id: "01a1ef78-b6db-7634-a3ba-6bade39ec55c",
  project_id: "01a1ef78-b4dc-7f6e-9c2b-e70f83799ea2",
  tenant_id: tenant.id,
  env: "live",
  display_prefix: "kr_live_bv5ZJk",
  name: "build server",
  scopes: ["orders:read"],
  meta: {},
  rate_limits: null,
  expires_at: null,
  revoked_at: null,
  revoked_reason: null,
  quarantined_at: null,
  quarantine_reason: null,
  rotated_from: null,
  created_at: "2026-11-18T16:23:48.187Z",
  last_used_at: null,
  disabled_at: null,
  disabled_reason: null,
  allowed_cidrs: null,
  ip_mode: "enforce",
};

const error = {
  error: {
    code: "invalid_request",
    message: "The request body is not valid.",
    details: [{ path: "env", message: "must be live or test" }],
  },
};

/** Endpoint → what it returns. */
export const EXAMPLES = { "GET /v1/keys/{id}": key, "GET /v1/tenants/{id}": tenant };

const block = (value: unknown): string[] => ["```json", JSON.stringify(value, null, 2), "```", ""];

export const EXAMPLES_TITLE = "Example responses";

export const examplesSection = (): string[] => [
  `## ${EXAMPLES_TITLE}`,
  "",
  "The schemas of all responses are in the OpenAPI document: `keyrack openapi > openapi.json`, then open the file in Swagger UI, Bruno or another viewer. An API key; only the responses to creating and rotating one also have `key`, its text:",
  "",
  ...block(key),
  "A tenant:",
  "",
  ...block(tenant),
  'A list is `{"object": "list", "data": […]}`, and `has_more` or `next_cursor` say whether another page follows. An error:',
  "",
  ...block(error),
];
