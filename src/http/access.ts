// The authorisation matrix as one table: routes are built from it and tests check every rule.
// Y allowed · T allowed in the test environment only · "-" 403 · 401 not a credential here.
import {
  restrictionOf,
  type Actor,
  type AnonymousActor,
  type ApiKeyActor,
  type BootstrapActor,
  type EmbedActor,
  type Permission,
  type Restriction,
  type SecretKeyActor,
  type SessionActor,
  type Vendor,
} from "../domain/core/actor.ts";
import { requireOrigin } from "../domain/embed/rules.ts";
import { fail, failField, type Failure, type FailureName } from "../kernel/errors.ts";
import { parseUuid } from "../kernel/ids.ts";

export const CREDENTIAL_KINDS = [
  "sk_owner",
  "sk_admin",
  "sk_test",
  "ses_owner",
  "ses_admin",
  "ses_member",
  "embed",
  "bootstrap",
  "none",
  "api_key",
] as const;
export type CredentialKind = (typeof CREDENTIAL_KINDS)[number];
type Rule = "Y" | "T" | "-" | "401";

/** One row of the matrix. `A` is the kind of actor that its handlers are given. */
export type AccessRow<A extends Actor = Actor> = {
  readonly rules: Readonly<Record<CredentialKind, Rule>>;
  /** The refusal for a valid credential of the wrong kind. */
  readonly wrongKind: FailureName;
  /** Credentials are ignored. */
  readonly open: boolean;
  /** What a restricted secret key needs besides the rule; null admits unrestricted keys only. */
  readonly needs: Needs | null;
  /** Is about the whole workspace, so a key that is confined to projects is refused. */
  readonly wide: boolean;
  readonly _actor?: A;
};

/** `itself`: every restricted key may act on itself. */
type Needs = Permission | "itself";

function row<A extends Actor>(
  text: string,
  wrongKind: FailureName,
  more: Partial<Pick<AccessRow, "open" | "needs" | "wide">> = {},
): AccessRow<A> {
  // An API key is a credential on the holder plane only, which names its rule.
  const rules = [...text.trim().split(/\s+/), "401"] as Rule[];
  return {
    rules: Object.fromEntries(CREDENTIAL_KINDS.map((kind, i) => [kind, rules[i]])) as AccessRow["rules"],
    wrongKind,
    open: false,
    needs: null,
    wide: false,
    ...more,
  };
}

const vendor = (rules: string, needs: Needs | null = null, { wide = false } = {}): AccessRow<Vendor> =>
  row(rules, "needs_vendor", { needs, wide });
const WIDE = { wide: true };
const machine = (rules: string, needs: Permission): AccessRow<SecretKeyActor> =>
  row(rules, "needs_secret_key", { needs });
const person = (rules: string): AccessRow<SessionActor> => row(rules, "needs_session");
const everyone = (): AccessRow<AnonymousActor> => row("Y Y Y Y Y Y Y Y Y Y", "unauthenticated", { open: true });
const holder = (): AccessRow<ApiKeyActor> => row("- - - - - - - 401 401 Y", "needs_api_key");

export const access = {
  //                                   SK live        SK    SES                  EMB  BOOT none
  //                                   owner admin    test  owner admin member
  "auth.open": everyone(),
  "auth.own": person("                 -     -        -     Y     Y     Y        -    401  401"),
  "workspaces.create": row<SessionActor | BootstrapActor>(
    "                                  -     -        -     Y     Y     Y        -    Y    401",
    "needs_session_or_bootstrap",
  ),
  "workspace.read": vendor("           Y     Y        Y     Y     Y     Y        -    401  401", "read"),
  "workspace.write": vendor("          Y     Y        -     Y     Y     -        -    401  401"),
  "members.read": vendor("             Y     Y        -     Y     Y     Y        -    401  401"),
  "members.write": vendor("            Y     -        -     Y     -     -        -    401  401"),
  "resources.read": vendor("           Y     Y        Y     Y     Y     Y        -    401  401", "read"),
  "projects.create": vendor("          Y     Y        Y     Y     Y     -        -    401  401"),
  "projects.change": vendor("          Y     Y        -     Y     Y     -        -    401  401"),
  "plans.write": vendor("              Y     Y        -     Y     Y     -        -    401  401"),
  "tenants.create": vendor("           Y     Y        Y     Y     Y     -        -    401  401", "manage"),
  "tenants.change": vendor("           Y     Y        -     Y     Y     -        -    401  401", "manage", WIDE),
  "tenant_quotas.read": vendor("       Y     Y        T     Y     Y     Y        -    401  401", "read", WIDE),
  "tenant_quotas.grant": vendor("      Y     Y        T     Y     Y     -        -    401  401", "manage", WIDE),
  "keys.read": vendor("                Y     Y        T     Y     Y     Y        -    401  401", "read"),
  "keys.write": vendor("               Y     Y        T     Y     Y     -        -    401  401", "manage"),
  "keys.lookup": vendor("              Y     Y        T     Y     Y     -        -    401  401", "read"),
  "secret_keys.read": vendor("         Y     Y        T     Y     Y     Y        -    401  401", "read"),
  "secret_keys.create": vendor("       Y     Y        T     Y     Y     -        -    401  401"),
  "secret_keys.write": vendor("        Y     Y        T     Y     Y     -        -    401  401", "itself"),
  "embed_tokens.mint": machine("       Y     Y        T     -     -     -        -    401  401", "portal"),
  "embed.use": row<EmbedActor>(
    "                                  -     -        -     -     -     -        Y    401  401",
    "needs_embed_token",
  ),
  "machine.use": machine("             Y     Y        T     -     -     -        -    401  401", "verify"),
  "usage.billing": vendor("            Y     Y        -     Y     Y     Y        -    401  401", "read", WIDE),
  "usage.tenants": vendor("            Y     Y        T     Y     Y     Y        -    401  401", "read"),
  "usage.series": vendor("             Y     Y        T     Y     Y     Y        -    401  401", "read"),
  "environments.read": vendor("        Y     Y        Y     Y     Y     Y        -    401  401", "read"),
  "audit.read": vendor("               Y     Y        Y     Y     Y     Y        -    401  401", "read", WIDE),
  "audit.chain": vendor("              Y     Y        Y     Y     Y     Y        -    401  401", "read"),
  "holder.use": holder(),
  /** Also with a key that has expired or is disabled. */
  "holder.revoke": holder(),
  public: everyone(),
  "scanner.report": everyone(),
} as const satisfies Record<string, AccessRow>;

export type AccessName = keyof typeof access;
export type ActorOf<N extends AccessName> = (typeof access)[N] extends AccessRow<infer A> ? A : never;

function kindOf(actor: Actor): CredentialKind {
  if (actor.kind === "secret_key")
    return actor.env === "test" ? "sk_test" : actor.owner_scope ? "sk_owner" : "sk_admin";
  if (actor.kind === "session") return `ses_${actor.role ?? "member"}`;
  if (actor.kind === "embed_token") return "embed";
  if (actor.kind === "api_key") return "api_key";
  return actor.kind === "bootstrap" ? "bootstrap" : "none";
}

const SECRET_KEYS: CredentialKind[] = ["sk_owner", "sk_admin", "sk_test"];
const SESSIONS: CredentialKind[] = ["ses_owner", "ses_admin", "ses_member"];

/** Why this row refuses the actor; undefined if it admits it. */
export function refusal(row: AccessRow, actor: Actor): Failure | undefined {
  const { rules, wrongKind, open } = row;
  if (open) return undefined;
  const kind = kindOf(actor);
  const rule = rules[kind];
  if (rule === "401") return fail(kind === "none" ? "unauthenticated" : "unusable_credential");
  if (rule !== "-") {
    const lacksWorkspace = isVendorPlane(row) && actor.kind === "session" && actor.workspace_id === null;
    return lacksWorkspace ? fail("no_active_workspace") : restrictionRefusal(row, restrictionOf(actor));
  }
  const family = SECRET_KEYS.includes(kind) ? SECRET_KEYS : SESSIONS.includes(kind) ? SESSIONS : [];
  if (family.every((other) => rules[other] === "-")) return fail(wrongKind);
  if (kind === "sk_test") return fail("test_refused");
  if (actor.kind === "session" && actor.workspace_id === null) return fail("no_active_workspace");
  return fail(kind === "ses_member" ? "member_is_read_only" : "owner_only");
}

/** Why a restricted secret key is refused although its role is allowed. */
function restrictionRefusal({ needs, wide }: AccessRow, restriction: Restriction | null): Failure | undefined {
  if (!restriction || needs === "itself") return undefined;
  const lacks = (message: string): Failure => failField("lacks_permission", "permissions", message);
  if (needs === null) return lacks("needs an unrestricted key");
  const { permissions, project_ids } = restriction;
  const permitted = permissions.includes(needs) || (needs === "read" && permissions.includes("manage"));
  if (!permitted) return lacks(`needs ${needs}`);
  return wide && project_ids ? lacks("needs no project_ids") : undefined;
}

export function isHolderPlane(name: AccessName): boolean {
  return name === "holder.use" || name === "holder.revoke";
}

/** Vendor endpoints check the header keyrack-workspace. */
export function isVendorPlane({ wrongKind }: AccessRow): boolean {
  return wrongKind === "needs_vendor";
}

/**
 * Why an endpoint of the vendor plane refuses the header keyrack-workspace: a session may have been switched to another
 * workspace in another tab, and a form must not write into a workspace other than the one on the screen. The header
 * never selects a workspace.
 */
export function workspaceRefusal(row: AccessRow, actor: Actor, asserted: unknown): Failure | undefined {
  if (asserted === undefined || !isVendorPlane(row)) return undefined;
  if (actor.kind !== "secret_key" && actor.kind !== "session") return undefined;
  if (typeof asserted !== "string" || parseUuid(asserted) === null)
    return failField("invalid_header", "keyrack-workspace", "must be a UUID");
  const moved = actor.workspace_id !== null && actor.workspace_id !== asserted.toLowerCase();
  return moved ? failField("workspace_moved", "keyrack-workspace", "is not the credential's workspace") : undefined;
}

/** Embed tokens are minted by backends, never by browsers, and work only on pages of the origins they name. */
export function checkOrigin(endpoint: { backendOnly: boolean }, actor: Actor, origin: string | undefined): void {
  if (endpoint.backendOnly && origin !== undefined) throw fail("backend_only");
  if (actor.kind === "embed_token") requireOrigin(actor, origin);
}
