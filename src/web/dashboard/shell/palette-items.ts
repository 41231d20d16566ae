// What the command palette offers for a text. Text that is a credential is never sent anywhere: it is named by its kind.
import { guessCredentialKind, parseCredential, type CredentialKind } from "../../../kernel/credentials.ts";
import { call } from "../api/call.ts";
import { session } from "../api/session.ts";
import { env, hrefTo, slug } from "../here.ts";
import { searchTenants } from "../keys/records.ts";
import type { NavItem } from "./nav.tsx";

export type PaletteItem = { group: string; label: string; hint?: string; href: string };

const SHOWN_MAX = 20;
const CREDENTIAL_CHARS_MIN = 20;

const KINDS: Partial<Record<CredentialKind, string>> = {
  api_key: "an API key",
  secret_key: "a secret key",
  session: "a session token",
  bootstrap: "the bootstrap token",
  setup: "a setup token",
};

/** What a pasted credential is; null for other texts. */
export function credentialNote(text: string): string | null {
  const kind = text.length >= CREDENTIAL_CHARS_MIN && !/\s/.test(text) ? guessCredentialKind(text) : null;
  if (kind === null) return null;
  const parsed = parseCredential(text);
  if (!parsed) return "This key is mistyped: its checksum is wrong.";
  const name = KINDS[parsed.kind] ?? "a one-time token";
  return `This is ${name} (${parsed.displayPrefix}…). It was not sent anywhere.`;
}

const matches = (text: string, label: string): boolean => label.toLowerCase().includes(text.toLowerCase());

/** Pages, actions and workspaces: known without asking the server. */
export function localItems(text: string, pages: readonly NavItem[]): PaletteItem[] {
  const other = env.value === "live" ? "test" : "live";
  const all: PaletteItem[] = [
    ...pages.map(({ page, title }) => ({ group: "Pages", label: title, href: hrefTo(page) })),
    { group: "Pages", label: "Account", href: "#/account" },
    { group: "Actions", label: "Create key", href: hrefTo("keys", { query: { create: "key" } }) },
    { group: "Actions", label: `Switch to ${other}`, href: hrefTo("home", { env: other }) },
    ...(session.value?.memberships ?? [])
      .filter((one) => one.slug !== slug.value)
      .map((one) => ({
        group: "Workspaces",
        label: one.name,
        hint: one.role,
        href: hrefTo("home", { slug: one.slug }),
      })),
  ];
  return all.filter(({ label }) => matches(text, label)).slice(0, SHOWN_MAX);
}

/** Records of the workspace. */
export async function remoteItems(text: string, abort: AbortSignal): Promise<PaletteItem[]> {
  if (text === "" || slug.value === "") return [];
  const [projects, tenants] = await Promise.all([
    call("GET /v1/projects", {}, { signal: abort }),
    searchTenants(text, abort),
  ]);
  return [
    ...projects.data
      .filter((one) => matches(text, one.name) || matches(text, one.slug))
      .map((one) => ({ group: "Projects", label: one.name, hint: one.slug, href: hrefTo("projects", { id: one.id }) })),
    ...tenants.map(({ id, label, hint = "" }) => ({ group: "Tenants", label, hint, href: hrefTo("tenants", { id }) })),
  ];
}
