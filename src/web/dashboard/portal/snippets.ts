// Code that embeds the portal: for the page, for the backend, and for the look.
import type { Env } from "../../../kernel/credentials.ts";
import { colourProperties, type Colours } from "./colours.ts";

/** By name, because this file itself must not call it. */
const FETCH = "fetch";

export function portalSnippets(
  url: string,
  projectId: string,
  env: Env,
  colours: Colours,
): [name: string, code: string][] {
  const page = `<script type="module" src="${url}/embed/portal.js"></script>
<keyrack-portal></keyrack-portal>
<script type="module">
  document.querySelector("keyrack-portal").getToken = async () => {
    const response = await ${FETCH}("/embed-token", { method: "POST" });
    if (!response.ok) throw new Error("no token");
    return response.json();
  };
</script>`;
  const backend = `// Behind your own login: the tenant is the one of the signed-in customer.
app.post("/embed-token", requireLogin, async (req, res) => {
  const response = await ${FETCH}("${url}/v1/embed_tokens", {
    method: "POST",
    headers: {
      authorization: \`Bearer \${process.env.KEYRACK_SECRET_KEY}\`,
      "content-type": "application/json",
    },
    body: JSON.stringify({
      project_id: "${projectId}",
      tenant_id: req.user.tenantId,
      env: "${env}",
      scopes: ["keys:read", "keys:write"],
    }),
  });
  res.status(response.status).json(await response.json());
});`;
  const set = Object.keys(colours).length > 0 ? colours : { accent: "#2f55d4" };
  const lines = colourProperties(set).map(([property, value]) => `  ${property}: ${value};`);
  const css = ["keyrack-portal {", ...lines, "}"].join("\n");
  return [
    ["Page", page],
    ["Backend", backend],
    ["CSS", css],
  ];
}
