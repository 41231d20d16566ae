// A vendor's backend and page where customers manage their own API keys. No dependencies.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const { KEYRACK_URL, KEYRACK_SECRET_KEY, KEYRACK_PROJECT_ID, KEYRACK_TENANT_ID, PORT = "3000" } = process.env;
const file = (name) => readFileSync(new URL(name, import.meta.url), "utf8").replaceAll("{{KEYRACK_URL}}", KEYRACK_URL);
const files = {
  "/": [200, "text/html", file("page.html")],
  "/page.js": [200, "text/javascript", file("page.js")],
  "/page.css": [200, "text/css", file("page.css")],
};
const headers = { authorization: `Bearer ${KEYRACK_SECRET_KEY}`, "content-type": "application/json" };

async function keyrack(method, path, body) {
  const request = { method, headers, body: JSON.stringify(body) };
  const response = await fetch(KEYRACK_URL + path, request);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** The signed-in customer decides the tenant. Ask your own session here; never the request. */
function createToken() {
  const scopes = ["keys:read", "keys:write", "key_scope:orders:read", "key_scope:orders:write"];
  const who = { project_id: KEYRACK_PROJECT_ID, tenant_id: KEYRACK_TENANT_ID, env: "live" };
  return keyrack("POST", "/v1/embed_tokens", { ...who, scopes });
}

const csp = `default-src 'none'; style-src 'self'; script-src 'self' ${KEYRACK_URL}; connect-src 'self' ${KEYRACK_URL}`;
const server = createServer(async (req, res) => {
  const wantsToken = req.method === "POST" && req.url === "/embed-token";
  const json = wantsToken && (await createToken().then(JSON.stringify, (error) => console.error(error.message)));
  const [status, type, body] = json ? [200, "application/json", json] : (files[req.url] ?? [wantsToken ? 502 : 404]);
  res.writeHead(status, { "content-type": type ?? "text/plain", "content-security-policy": csp }).end(body ?? "None.");
});
server.listen(Number(PORT), "localhost", async () => {
  const origin = `http://localhost:${server.address().port}`;
  // The list replaces the stored one, so only a throwaway Keyrack gets it, which alone sets KEYRACK_VERIFY_KEY.
  if (process.env.KEYRACK_VERIFY_KEY) await keyrack("PATCH", "/v1/workspace", { embed_origins: [origin] });
  console.log(`Open ${origin}`);
});
