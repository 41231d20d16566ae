// A vendor's site for tests: a page of another origin with the portal on it, and a backend that mints its tokens.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import type { Json, TestInstance, Workspace } from "../instances/test-instance.ts";

type VendorPage = AsyncDisposable & {
  origin: string;
  /** Tokens minted so far. */
  minted: number;
  /** False: the backend refuses to mint tokens, as for a signed-out user. */
  open: boolean;
  /** The request body for new tokens. */
  want: Json;
};

type Options = {
  /** Registers the page's origin on the workspace; default true. */
  register?: boolean;
  /** The page serves the script itself, and its policy allows calls to Keyrack only. */
  strict?: boolean;
  /** Attributes of the element. */
  attributes?: string;
  env?: "live" | "test";
};

const SCRIPT = fileURLToPath(new URL("../../dist/web/portal.js", import.meta.url));

export async function vendorPage(
  instance: TestInstance,
  workspace: Workspace,
  options: Options = {},
): Promise<VendorPage> {
  const { register = true, strict = false, attributes = "", env = "live" } = options;
  const script = strict ? "/portal.js" : `${instance.url}/embed/portal.js`;
  const scripts = strict ? "'self'" : `'self' ${instance.url}`;
  const csp = [
    "default-src 'none'; img-src 'self'; style-src 'self'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    `script-src ${scripts}; connect-src 'self' ${instance.url}`,
  ].join("; ");
  const html = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Acme</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="/page.css">
<script type="module" src="${script}"></script><script type="module" src="/page.js"></script>
<main><h1>Acme Orders</h1><keyrack-portal base-url="${instance.url}" ${attributes}></keyrack-portal></main></html>`;
  const files: Record<string, [string, string]> = {
    "/": ["text/html", html],
    "/portal.js": ["text/javascript", readFileSync(SCRIPT, "utf8")],
    "/favicon.ico": ["image/png", "-"],
    "/page.css": ["text/css", PAGE_CSS],
    "/page.js": ["text/javascript", PAGE_JS],
  };
  const site: VendorPage = {
    origin: "",
    minted: 0,
    open: true,
    want: { project_id: workspace.project_id, tenant_id: workspace.tenant_id, env, scopes: SCOPES },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const server = createServer(async (req, res) => {
    const [type, body] =
      req.url === "/embed-token" && site.open
        ? [
            "application/json",
            (site.minted++,
            JSON.stringify((await workspace.call("sk_owner", "POST /v1/embed_tokens", site.want)).body)),
          ]
        : (files[req.url ?? ""] ?? ["text/plain", ""]);
    res.writeHead(body ? 200 : 403, { "content-type": `${type}; charset=utf-8`, "content-security-policy": csp });
    res.end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "localhost", () => resolve()));
  site.origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  if (register) await workspace.call("sk_owner", "PATCH /v1/workspace", { embed_origins: [site.origin] });
  return site;
}

const SCOPES = ["keys:read", "keys:write", "key_scope:orders:read", "key_scope:orders:write"];
const PAGE_CSS = `body { margin: 0 auto; max-width: 920px; padding: 32px 20px; font-family: system-ui, sans-serif; background: #eef0f3; color: #1b1f24 }
h1 { font-size: 22px; margin: 0 0 20px }
@media (prefers-color-scheme: dark) { body { background: #0e1013; color: #e9ebef } }
@media (max-width: 600px) { body { padding: 16px 12px } }`;
const PAGE_JS = `const portal = document.querySelector("keyrack-portal");
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI));
portal.getToken = async () => {
  const response = await fetch("/embed-token", { method: "POST" });
  if (!response.ok) throw new Error("no token");
  return response.json();
};`;
