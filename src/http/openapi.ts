// Generates OpenAPI 3.1 from the endpoint declarations. Throws for a schema that cannot be described (a transform, a
// date), so that the golden test fails.
import { z } from "zod";
import { failures, type FailureName } from "../kernel/errors.ts";
import { access, CREDENTIAL_KINDS, isVendorPlane, type AccessName, type CredentialKind } from "./access.ts";
import type { Endpoint, Schema } from "./endpoint.ts";
import { yieldToEventLoop } from "../platform/event-loop.ts";
import { VERSION } from "../platform/version.ts";

type Json = Record<string, unknown>;

function jsonSchema(schema: Schema, io: "input" | "output"): Json {
  const { $schema: _dropped, ...rest } = z.toJSONSchema(schema, {
    io,
    reused: "inline",
    unrepresentable: "throw",
  }) as Json;
  return rest;
}

const errorBody = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["code", "message"],
      properties: {
        code: { type: "string", enum: [...new Set(Object.values(failures).map(([, code]) => code))].toSorted() },
        message: { type: "string" },
        details: {
          type: "array",
          items: {
            type: "object",
            required: ["path", "message"],
            properties: { path: { type: "string" }, message: { type: "string" } },
          },
        },
        missing_scopes: { type: "array", items: { type: "string" } },
      },
    },
  },
};

/** Every refusal an endpoint may give: the common ones of its kind, and those it declares. */
export function failuresOf(endpoint: Endpoint): FailureName[] {
  const names: FailureName[] = ["internal_error", "unavailable", "overloaded", "method_not_allowed"];
  if (endpoint.hasLargeResponse) names.push("share_full");
  if (endpoint.params) names.push("invalid_path");
  if (!endpoint.looseQuery) names.push("invalid_query");
  if (endpoint.body) names.push("invalid_body", "body_too_complex", "payload_too_large", "unsupported_media_type");
  if (endpoint.idempotent) names.push("invalid_header", "idempotency_mismatch", "idempotency_in_flight");
  const { open, wrongKind, rules } = access[endpoint.access];
  if (isVendorPlane(access[endpoint.access])) names.push("invalid_header", "workspace_moved");
  if (!open)
    names.push("unauthenticated", "unusable_credential", "invalid_key", "invalid_session", "rate_limited", wrongKind);
  if (rules.embed === "Y" && !open) names.push("invalid_embed_token", "origin_not_allowed");
  if (endpoint.perNetwork) names.push("rate_limited");
  if (endpoint.backendOnly) names.push("backend_only");
  if (endpoint.scope) names.push("insufficient_scope");
  return [...new Set([...names, ...endpoint.failures])];
}

function responses(endpoint: Endpoint): Json {
  const schema = endpoint.produces ? { type: "string" } : jsonSchema(endpoint.output, "output");
  const types = endpoint.produces ?? ["application/json"];
  const content = Object.fromEntries(types.map((type) => [type, { schema }]));
  const result: Json = {
    ...(endpoint.replay && { 200: { description: endpoint.replay, content } }),
    [endpoint.status]: { description: endpoint.summary, content },
    ...(endpoint.hasEtag && { 304: { description: "Nothing has changed." } }),
  };
  const byStatus = Map.groupBy(failuresOf(endpoint), (name) => failures[name][0]);
  for (const [status, names] of [...byStatus].toSorted(([a], [b]) => a - b)) {
    result[status] = {
      description: [...new Set(names.map((name) => failures[name][2]))].join(" "),
      content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
    };
  }
  return result;
}

function parameters(endpoint: Endpoint): Json[] {
  const list: Json[] = [];
  const add = (place: "path" | "query", schema: Schema | undefined): void => {
    if (!schema) return;
    const { properties = {}, required = [] } = jsonSchema(schema, "input") as {
      properties?: Json;
      required?: string[];
    };
    for (const [name, described] of Object.entries(properties)) {
      const { description, ...shape } = described as Json;
      // A list is sent as a repeated parameter.
      const style = shape.type === "array" ? { style: "form", explode: true } : {};
      const isRequired = place === "path" || required.includes(name);
      list.push({ name, in: place, description, required: isRequired, ...style, schema: shape });
    }
  };
  add("path", endpoint.params);
  add("query", endpoint.query);
  if (isVendorPlane(access[endpoint.access])) {
    list.push({
      name: "keyrack-workspace",
      in: "header",
      description: "asserts the credential's workspace: 409 without any change if it is another one",
      required: false,
      schema: { type: "string", format: "uuid" },
    });
  }
  if (endpoint.access === "machine.use") {
    list.push({
      name: "keyrack-sdk",
      in: "header",
      description: "the calling library, as name/version: shown by GET /v1/nodes?view=fleet; ignored if malformed",
      required: false,
      schema: { type: "string" },
    });
  }
  if (endpoint.idempotent) {
    list.push({
      name: "Idempotency-Key",
      in: "header",
      description: "makes the request safe to repeat: the same key gets the same response",
      required: false,
      schema: { type: "string", maxLength: 255 },
    });
  }
  return list;
}

/** First segment of a path after /v1 → what is found below it. */
const TAGS: Record<string, string> = {
  audit_logs: "The hash-chained audit log of the workspace.",
  auth: "People: accounts, sessions, email addresses and passwords.",
  bulk: "One action on many records.",
  embed: "A tenant's own keys, for the portal embedded in a vendor's page.",
  embed_tokens: "Tokens for the portal.",
  environments: "Live and test.",
  idempotency: "Claims that make the requests to a vendor's API safe to repeat.",
  ingest: "Telemetry: the requests that nodes served.",
  instance: "The server itself.",
  invites: "Invitations to the workspace.",
  keys: "The API keys of tenants.",
  members: "The people in the workspace.",
  nodes: "The processes that verify keys, and the policy versions they have acknowledged.",
  overview: "Figures of the workspace.",
  plans: "Rate limits, quotas and key limits shared by tenants.",
  policy: "The policy feed, with which nodes verify keys in memory.",
  projects: "The APIs that keys belong to.",
  propagation: "Which nodes have acknowledged a change.",
  public: "Health, pages and this document.",
  quota_grants: "Extra units on top of quotas.",
  ratelimit: "Rate limits that all nodes share.",
  secret_keys: "The credentials of the vendor's own backend.",
  self: "For the holder of an API key: show, rotate and revoke it.",
  setup: "Claiming a server that has no owner yet.",
  tenants: "The vendor's customers.",
  usage: "Traffic and billing figures.",
  webhooks: "Reports of leaked keys by secret scanners.",
  workspace: "The vendor's account.",
};

/** In the order that readers and linters expect. */
export const METHODS = ["GET", "POST", "PATCH", "DELETE"];

const CALLERS: Record<CredentialKind, string> = {
  sk_owner: "live secret keys with owner scope",
  sk_admin: "other live secret keys",
  sk_test: "test secret keys",
  ses_owner: "sessions of owners",
  ses_admin: "sessions of admins",
  ses_member: "sessions of members",
  embed: "embed tokens",
  bootstrap: "the bootstrap token",
  none: "requests without a credential",
  api_key: "the API key itself",
};

const SCHEMES: Record<CredentialKind, string | null> = {
  sk_owner: "secretKey",
  sk_admin: "secretKey",
  sk_test: "secretKey",
  ses_owner: "session",
  ses_admin: "session",
  ses_member: "session",
  embed: "embedToken",
  bootstrap: "bootstrapToken",
  none: null,
  api_key: "apiKey",
};

function security(name: AccessName): Json[] {
  const row = access[name];
  if (row.open) return [];
  const open = CREDENTIAL_KINDS.filter((kind) => row.rules[kind] === "Y" || row.rules[kind] === "T");
  const schemes = new Set(open.map((kind) => SCHEMES[kind]).filter((scheme) => scheme !== null));
  return [...schemes].map((scheme) => ({ [scheme]: [] }));
}

/** The credentials of a row as a sentence. */
function callers(name: AccessName): string {
  const { open, rules } = access[name];
  if (open) return "Needs no credential.";
  const allowed = CREDENTIAL_KINDS.filter((kind) => rules[kind] === "Y" || rules[kind] === "T");
  return `Allowed: ${allowed.map((kind) => CALLERS[kind] + (rules[kind] === "T" ? " (test environment only)" : "")).join(", ")}.`;
}

function description({ access: name, emits }: Endpoint): string {
  const audit = emits.length > 0 ? [`Audit: ${emits.map((action) => `\`${action}\``).join(", ")}.`] : [];
  return [callers(name), ...audit].join(" ");
}

function tagOf({ path }: Endpoint): string {
  const [, noun] = /^\/v1\/(\w+)/.exec(path) ?? [];
  const tag = noun === "workspaces" ? "workspace" : (noun ?? "public");
  if (!(tag in TAGS)) throw new Error(`${path} has no tag in src/http/openapi.ts`);
  return tag;
}

export function operationId({ method, path }: Endpoint): string {
  return `${method.toLowerCase()}${path.replace(/[^A-Za-z0-9]+(\w)?/g, (_all, c: string | undefined) => c?.toUpperCase() ?? "")}`;
}

function operation(endpoint: Endpoint): Json {
  const { body } = endpoint;
  return {
    operationId: operationId(endpoint),
    tags: [tagOf(endpoint)],
    summary: endpoint.summary,
    description: description(endpoint),
    security: security(endpoint.access),
    parameters: parameters(endpoint),
    ...(body && { requestBody: { content: { "application/json": { schema: jsonSchema(body, "input") } } } }),
    responses: responses(endpoint),
  };
}

/** Yields to the event loop after each operation: all of them together would block it. */
export async function openApiDocument(endpoints: readonly Endpoint[]): Promise<Json> {
  const paths: Record<string, Json> = Object.fromEntries(endpoints.map(({ path }) => [path, {}]));
  // Sorted by method only: the paths keep the order in which they were declared.
  const rank = ({ method }: Endpoint): number => METHODS.indexOf(method);
  for (const endpoint of endpoints.toSorted((a, b) => rank(a) - rank(b))) {
    (paths[endpoint.path] ??= {})[endpoint.method.toLowerCase()] = operation(endpoint);
    await yieldToEventLoop();
  }
  const bearer = (bearerFormat: string): Json => ({ type: "http", scheme: "bearer", bearerFormat });
  return {
    openapi: "3.1.2",
    info: {
      title: "Keyrack",
      version: VERSION,
      contact: { name: "Keyrack", url: "https://github.com/keyrack/keyrack/issues" },
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "http://127.0.0.1:4747", description: "keyrack serve without settings" }],
    tags: Object.entries(TAGS).map(([name, text]) => ({ name, description: text })),
    paths,
    components: {
      schemas: { Error: errorBody },
      securitySchemes: {
        secretKey: bearer("krsk_"),
        session: bearer("krses_"),
        embedToken: bearer("JWT"),
        bootstrapToken: bearer("krboot_"),
        apiKey: bearer("kr_"),
      },
    },
  };
}
