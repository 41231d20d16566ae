// Takes the pictures of docs/dashboard.md: starts an instance with some content and visits its pages in a browser, in a
// light, a dark and a phone-sized window.
import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { launchBrowser, visit } from "../harness/browser/browser.ts";
import { startLocalInstance, type LocalInstance } from "../harness/instances/local-instance.ts";
import { readMailbox } from "../harness/instances/mailbox.ts";
import { runScript } from "./script.ts";
import { withTemporaryFolder } from "./temporary-folder.ts";

const OUT = fileURLToPath(new URL("../docs/images/", import.meta.url));
const PASSWORD = "correct horse battery staple";
const EMAIL = "ada@example.com";
const DAY_MS = 86_400_000;

const LOOKS = [
  ["light", { colorScheme: "light", viewport: { width: 1200, height: 760 } }],
  ["dark", { colorScheme: "dark", viewport: { width: 1200, height: 760 } }],
  ["phone", { colorScheme: "light", viewport: { width: 375, height: 760 } }],
] as const;

/** Name of the picture → page of the workspace, and the heading to wait for. */
const PAGES = [
  ["home", "home", "Home"],
  ["keys", "keys", "Keys"],
] as const;

const TENANTS = ["Globex", "Initech", "Umbrella", "Stark Industries"];
const NAMES = ["Production", "Staging", "CI", "Reporting"];

/** A person with a workspace of two projects, four tenants and some keys. */
async function fill({ app, call }: LocalInstance, dir: string): Promise<void> {
  const ok = async (bearer: string | null, route: string, body?: unknown) => {
    const reply = await call(bearer, route, body);
    if (reply.status >= 300) throw new Error(`${route}: ${reply.text}`);
    return reply.body as Record<string, string> & { workspace: { id: string } };
  };
  await ok(null, "POST /v1/auth/users", { email: EMAIL, password: PASSWORD, name: "Ada" });
  await app.idle();
  const { token } = readMailbox(join(dir, "mail")).find(({ to }) => to === EMAIL) ?? {};
  await ok(null, "POST /v1/auth/email_verifications/consume", { token });
  const owner = (await ok(null, "POST /v1/auth/sessions", { email: EMAIL, password: PASSWORD })).token ?? null;
  await ok(owner, "POST /v1/workspaces", { name: "Acme", slug: "acme" });
  for (const [p, name] of ["Orders API", "Search API"].entries()) {
    const project = await ok(owner, "POST /v1/projects", { name, slug: `api-${p}` });
    for (const [t, tenantName] of TENANTS.entries()) {
      const tenant = await ok(owner, "POST /v1/tenants", { external_id: `cus-${p}${t}`, name: tenantName });
      for (const [k, keyName] of NAMES.entries()) {
        const expires_at = new Date(Date.now() + (k + 3) * 2 * DAY_MS).toISOString();
        const key = { project_id: project.id, tenant_id: tenant.id, env: "live", name: keyName };
        const scopes = ["orders:read", "orders:write"].slice(0, k);
        await ok(owner, "POST /v1/keys", { ...key, scopes, ...((k + t) % 3 === 0 && { expires_at }) });
      }
    }
  }
}

async function takePictures(url: string): Promise<void> {
  const browser = await launchBrowser();
  for (const [look, options] of LOOKS) {
    const { page, context } = await visit(browser, `${url}/#/login`, options);
    await page.getByLabel("Email", { exact: true }).fill(EMAIL);
    await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await page.getByRole("button", { name: "Log in" }).click();
    for (const [name, address, title] of PAGES) {
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.goto(`${url}/#/w/acme/live/${address}`);
      await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
      await page.locator(".skeleton").first().waitFor({ state: "detached" });
      await page.waitForLoadState("networkidle");
      await page.screenshot({ path: join(OUT, `dashboard-${name}-${look}.png`), animations: "disabled" });
    }
    await context.close();
  }
  await browser.close();
}

await runScript(() =>
  withTemporaryFolder(join(tmpdir(), "keyrack-screenshots-"), async (dir) => {
    mkdirSync(OUT, { recursive: true });
    const instance = await startLocalInstance({ target: { kind: "sqlite", file: join(dir, "keyrack.db") }, dir });
    await fill(instance, dir);
    await takePictures(instance.app.url);
    await instance.app.stop();
  }),
);
