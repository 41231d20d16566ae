// docs/limits.md: the limits that callers meet, with the values that the code checks.
import { tmpdir } from "node:os";
import { endpoints } from "../src/api/index.ts";
import { META_BYTES, NAME_MAX, SCOPE_MAX, SCOPES_MAX } from "../src/api/schemas.ts";
import { loadSettings } from "../src/config/load.ts";
import { SESSIONS_MAX } from "../src/domain/auth/sessions.ts";
import { EMBED_KEYS_MAX } from "../src/domain/embed/rules.ts";
import { SECRET_KEYS_MAX, UNREVOKED_PER_WORKING } from "../src/domain/keys/secret-keys.ts";
import { PLANS_MAX } from "../src/domain/plans/plans.ts";
import { OPEN_MAX } from "../src/domain/quotas/grants.ts";
import { EVENTS_MAX } from "../src/domain/ingest/ingest.ts";
import { PENDING_INVITES_MAX } from "../src/domain/workspaces/invites.ts";
import {
  PROJECT_PREFIXES_MAX,
  TEST_PREFIXES_MAX,
  WORKSPACE_PREFIXES_MAX,
} from "../src/domain/workspaces/key-prefixes.ts";
import { MEMBERS_MAX } from "../src/domain/workspaces/members.ts";
import { PROJECTS_MAX } from "../src/domain/workspaces/projects.ts";
import { SLOTS } from "../src/domain/workspaces/tenants.ts";
import { limitsOf, sharesTable, type Resource } from "../src/fairness/shares.ts";
import { THREAD_READS } from "../src/fairness/slots.ts";
import { BODY_MAX } from "../src/http/endpoint.ts";
import { DAY_MS } from "../src/kernel/durations.ts";
import { BODY_BYTES_MAX, RECORDS_MAX, STORED_BYTES_MAX, TTL_MS_MAX } from "../src/kernel/idempotency.ts";
import { CIDRS_MAX } from "../src/kernel/network/cidr.ts";
import { TRUSTED_MAX } from "../src/kernel/network/trusted-proxies.ts";
import { AMOUNT_MAX, QUOTAS_MAX } from "../src/kernel/quotas/quota.ts";
import { LIMIT_MAX, RATE_LIMITS_MAX, WINDOW_MS_MAX } from "../src/kernel/ratelimit/rule.ts";
import { TAGS_MAX } from "../src/kernel/usage/event-bounds.ts";
import { heading, row } from "./markdown.ts";

const { settings } = loadSettings({ env: {}, cwd: tmpdir() });
const number = (n: number): string => n.toLocaleString("en");
const days = (ms: number): string => `${ms / DAY_MS} days`;
const KIB = 1024;
const MIB = KIB ** 2;
const GIB = KIB ** 3;
const bytes = (n: number): string => (n >= GIB ? `${n / GIB} GiB` : n >= MIB ? `${n / MIB} MiB` : `${n / KIB} KiB`);
const shareOf = (name: Resource): number => limitsOf(sharesTable[name], settings).share;
const byEnv = ({ live, test }: { live: number; test: number }): string =>
  `${number(live)}; ${number(test)} by test credentials`;

/** That of most endpoints, and those that differ. */
function bodyLimits(): string {
  const others = endpoints.filter(({ bodyLimits: { bytes: most } }) => most !== BODY_MAX);
  return [
    bytes(BODY_MAX),
    ...others.map(({ name, bodyLimits: limit }) => `${bytes(limit.bytes)} for \`${name}\``),
  ].join("; ");
}

type Limit = [what: string, limit: string, page: string];

const GROUPS: Record<string, Limit[]> = {
  "Limits per workspace": [
    ["projects", byEnv(PROJECTS_MAX), "[keys](keys.md)"],
    ["tenants", byEnv({ live: SLOTS.live.max, test: SLOTS.test.max }), "[keys](keys.md)"],
    ["API keys", "unlimited; a plan may set a limit per tenant", "[plans](quotas.md#plans)"],
    [
      "working secret keys, and all that are not revoked, per environment",
      `${number(SECRET_KEYS_MAX)} · ${number(UNREVOKED_PER_WORKING * SECRET_KEYS_MAX)}`,
      "[secret keys](keys.md#secret-keys)",
    ],
    ["plans", number(PLANS_MAX), "[plans](quotas.md#plans)"],
    [
      "key prefixes, and key prefixes per project",
      `${WORKSPACE_PREFIXES_MAX}, of which ${TEST_PREFIXES_MAX} by test credentials · ${PROJECT_PREFIXES_MAX}`,
      "[prefixes](keys.md#custom-key-prefixes)",
    ],
    ["members, and pending invitations", `${MEMBERS_MAX} · ${PENDING_INVITES_MAX}`, "[people](people.md#invitations)"],
    ["invitations within 24 hours, per account", number(shareOf("mail")), "[people](people.md#invitations)"],
    [
      "nodes per project and environment",
      `${number(settings.nodes_max)} (\`KEYRACK_NODES_MAX\`)`,
      "[isolation](isolation.md#resources)",
    ],
    [
      "bytes written per UTC day, in live",
      `${bytes(shareOf("disk"))}; in test a quarter (\`KEYRACK_WRITES_MB_PER_DAY\`)`,
      "[isolation](isolation.md#resources)",
    ],
  ],
  "Limits per key": [
    ["rate limits", number(RATE_LIMITS_MAX), "[rate limits](quotas.md#rate-limits)"],
    [
      "limit and window of a rate limit",
      `${number(LIMIT_MAX)} · ${days(WINDOW_MS_MAX)}`,
      "[rate limits](quotas.md#rate-limits)",
    ],
    ["quotas, also per tenant and plan", number(QUOTAS_MAX), "[quotas](quotas.md#quotas)"],
    ["units of a quota", number(AMOUNT_MAX), "[quotas](quotas.md#quotas)"],
    ["unspent grants per balance", number(OPEN_MAX), "[grants](quotas.md#grants)"],
    ["scopes, and characters per scope", `${SCOPES_MAX} · ${SCOPE_MAX}`, "[scopes](keys.md#scopes)"],
    ["addresses and networks in an allow list", number(CIDRS_MAX), "[IP allow lists](ip-allow-lists.md)"],
    ["characters of a name, and size of `meta` as JSON", `${NAME_MAX} · ${bytes(META_BYTES)}`, "[API](api.md)"],
    ["active keys of a tenant through the portal, per project", number(EMBED_KEYS_MAX), "[portal](embed.md#the-token)"],
  ],
  Requests: [
    ["body", bodyLimits(), "[API](api.md)"],
    [
      "page of a list",
      `${bytes(settings.answer_max_bytes)} (\`KEYRACK_ANSWER_MAX_BYTES\`)`,
      "[settings](configure.md)",
    ],
    [
      "concurrent long reads per workspace and environment: usage series, reports and exports, counts of keys, and lists of keys that examine over 1,000; portals have their own",
      `${THREAD_READS.perOwner}; further ones wait ${THREAD_READS.waitMs / 1000} s, then 503 \`unavailable\``,
      "[isolation](isolation.md#resources)",
    ],
    [
      "concurrent exports in live, and in test",
      `${shareOf("exports")} · ${shareOf("exports") / 4}`,
      "[isolation](isolation.md#resources)",
    ],
    [
      "telemetry: events per batch, and per minute",
      `${number(EVENTS_MAX)} · ${number(shareOf("ingest"))}`,
      "[usage](usage.md)",
    ],
    ["tags per event", number(TAGS_MAX), "[usage](usage.md)"],
    [
      "idempotency: records, and bytes of stored responses, per environment",
      `${number(RECORDS_MAX)} · ${bytes(STORED_BYTES_MAX)}`,
      "[library](sdk.md#idempotent-handlers)",
    ],
    [
      "idempotency: size of one response, and how long it is stored",
      `${bytes(BODY_BYTES_MAX)} · ${days(TTL_MS_MAX)}`,
      "[library](sdk.md#idempotent-handlers)",
    ],
    [
      "trusted proxies of the library and the gateway",
      number(TRUSTED_MAX),
      "[library](sdk.md#client-ip-behind-a-proxy)",
    ],
  ],
  "Limits per person": [
    ["sessions", number(SESSIONS_MAX), "[sessions](people.md#sessions)"],
    [
      "workspaces",
      `${settings.workspaces_per_person} (\`KEYRACK_WORKSPACES_PER_PERSON\`)`,
      "[people](people.md#who-may-sign-up)",
    ],
    ["logins, sign-ups, reset emails", "by network and address", "[throttles](people.md#throttles)"],
  ],
};

export function limitsPage(): string {
  return [
    "# Limits",
    "",
    "Generated from the code by `npm run docs`, with the default settings. Shared resources, and what happens when they are full: [isolation.md](isolation.md#resources). Limits of single fields: [api.md](api.md).",
    "",
    ...Object.entries(GROUPS).flatMap(([title, limits]) => [
      `## ${title}`,
      "",
      ...heading(["what", "limit", "more"]),
      ...limits.map((limit) => row(limit)),
      "",
    ]),
  ].join("\n");
}
