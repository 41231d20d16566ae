// A vendor's backend and page where customers manage their own API keys. No dependencies.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const { KEYRACK_URL, KEYRACK_SECRET_KEY, KEYRACK_PROJECT_ID, KEYRACK_TENANT_ID, PORT = "3000" } = process.env;
const file = (name) => readFileSync(new URL(name, import.meta.url), "utf8").replaceAll("{{KEYRACK_URL}}", KEYRACK_URL);
const files = {
  "/": ["text/html", file("page.html")],
  "/page.js": ["text/javascript", file("page.js")],
  "/page.css": ["text/css", file("page.css")],
};

async function keyrack(method, path, body) {
  const headers = { authorization: `Bearer ${KEYRACK_SECRET_KEY}`, "content-type": "application/json" };
  const request = { method, headers, body: JSON.stringify(body) };
  const response = await fetch(KEYRACK_URL + path, request);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** Whoever is signed in decides the tenant. Ask your own session here; never the request. */
function mintToken() {
  const scopes = ["keys:read", "keys:write", "key_scope:orders:read", "key_scope:orders:write"];
  const who = { project_id: KEYRACK_PROJECT_ID, tenant_id: KEYRACK_TENANT_ID, env: "live" };
  return keyrack("POST", "/v1/embed_tokens", { ...who, scopes });
}

const csp = `default-src 'none'; style-src 'self'; script-src 'self' ${KEYRACK_URL}; connect-src 'self' ${KEYRACK_URL}`;
const server = createServer(async (req, res) => {
  const token = req.method === "POST" && req.url === "/embed-token" && (await mintToken().catch(console.error));
  const [type, body] = token ? ["application/json", JSON.stringify(token)] : (files[req.url] ?? []);
  res.writeHead(body ? 200 : 404, { "content-type": type ?? "text/plain", "content-security-policy": csp });
  res.end(body ?? "Not here.");
});
server.listen(Number(PORT), "localhost", async () => {
  const origin = `http://localhost:${server.address().port}`;
  await keyrack("PATCH", "/v1/workspace", { embed_origins: [origin] }); // once per deployment is enough
  console.log(`Open ${origin}`);
});
