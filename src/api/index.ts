// The list of all endpoints: router, docs, CLI and tests read it.
import type { Endpoint } from "../http/endpoint.ts";
import * as policy from "./machine/policy.ts";
import * as idempotency from "./machine/idempotency.ts";
import * as ingest from "./machine/ingest.ts";
import * as ratelimit from "./machine/ratelimit.ts";
import * as self from "./holder/self.ts";
import * as embedKeys from "./embed/keys.ts";
import * as embedTokens from "./machine/embed-tokens.ts";
import { healthz, readyz, status } from "./public/health.ts";
import { jwksShow } from "./public/jwks.ts";
import { openapiShow } from "./public/openapi.ts";
import { pagesAsset, pagesIndex } from "./public/pages.ts";
import * as emailVerifications from "./person/email-verifications.ts";
import { instanceShow } from "./person/instance.ts";
import * as accept from "./person/invites.ts";
import * as passwordResets from "./person/password-resets.ts";
import * as setup from "./person/setup.ts";
import * as sessions from "./person/sessions.ts";
import * as users from "./person/users.ts";
import { portalScript } from "./public/portal.ts";
import { scannerReport } from "./public/scanner.ts";
import * as audit from "./vendor/audit.ts";
import { keysBulk } from "./vendor/bulk.ts";
import * as environments from "./vendor/environments.ts";
import * as invites from "./vendor/invites.ts";
import * as keys from "./vendor/keys.ts";
import * as members from "./vendor/members.ts";
import * as nodes from "./vendor/nodes.ts";
import { overviewShow } from "./vendor/overview.ts";
import * as plans from "./vendor/plans.ts";
import * as projects from "./vendor/projects.ts";
import * as quotas from "./vendor/quotas.ts";
import * as secretKeys from "./vendor/secret-keys.ts";
import * as tenants from "./vendor/tenants.ts";
import * as usage from "./vendor/usage.ts";
import * as workspaces from "./vendor/workspaces.ts";

const planes = {
  ...users,
  ...sessions,
  ...emailVerifications,
  ...passwordResets,
  ...accept,
  instanceShow,
  ...setup,
  ...workspaces,
  ...members,
  ...invites,
  ...projects,
  ...tenants,
  ...plans,
  ...keys,
  keysBulk,
  ...quotas,
  ...nodes,
  overviewShow,
  ...secretKeys,
  ...environments,
  ...audit,
  ...policy,
  ...usage,
  ...idempotency,
  ...ingest,
  ...ratelimit,
  ...embedTokens,
  ...embedKeys,
  ...self,
  jwksShow,
  portalScript,
  scannerReport,
  healthz,
  readyz,
  status,
  pagesIndex,
  pagesAsset,
};

/** The types of the API for the typed client; for `import type` only. */
export type Api = (typeof planes)[keyof typeof planes];

// Loaders order the exports of a module differently; generated documents need a stable order.
const byRoute = (a: Endpoint, b: Endpoint): number => (a.path + a.method < b.path + b.method ? -1 : 1);

export const endpoints: readonly Endpoint[] = [...Object.values(planes), openapiShow(() => endpoints)].toSorted(
  byRoute,
);
