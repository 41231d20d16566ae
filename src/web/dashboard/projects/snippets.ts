// Code that verifies keys of a project, with the server's address and the project's id filled in.

type Adapter = { name: string; adapter: string; packages: string; imports: string; app: string };

const ADAPTERS: readonly Adapter[] = [
  {
    name: "Express",
    adapter: "express",
    packages: " express",
    imports: 'import express from "express";\n',
    app: `const app = express();
app.get("/orders", protect(keyrack), (req, res) => {
  res.json({ tenant: req.keyrack.tenantId });
});
app.listen(3000);`,
  },
  {
    name: "Fastify",
    adapter: "fastify",
    packages: " fastify",
    imports: 'import Fastify from "fastify";\n',
    app: `const app = Fastify();
app.get("/orders", { onRequest: protect(keyrack) }, async (request) => ({
  tenant: request.keyrack.tenantId,
}));
await app.listen({ port: 3000 });`,
  },
  {
    name: "Hono",
    adapter: "hono",
    packages: " hono @hono/node-server",
    imports: 'import { serve } from "@hono/node-server";\nimport { Hono } from "hono";\n',
    app: `const app = new Hono();
app.use(protect(keyrack));
app.get("/orders", (c) => c.json({ tenant: c.get("keyrack").tenantId }));
serve({ fetch: app.fetch, port: 3000 });`,
  },
  {
    name: "h3",
    adapter: "h3",
    packages: " h3",
    imports: 'import { H3, serve } from "h3";\n',
    app: `const app = new H3();
app.use(protect(keyrack));
app.get("/orders", (event) => ({ tenant: event.context.keyrack.tenantId }));
serve(app, { port: 3000 });`,
  },
  {
    name: "Node",
    adapter: "node",
    packages: "",
    imports: 'import { createServer } from "node:http";\n',
    app: `createServer(
  protect(keyrack, {}, (req, res) => res.end(req.keyrack.tenantId)),
).listen(3000);`,
  },
  {
    name: "fetch",
    adapter: "fetch",
    packages: "",
    imports: "",
    app: `export const GET = protect(keyrack, {}, (request, context) =>
  Response.json({ tenant: context.tenantId }),
);`,
  },
];

/** Joined, because a whole line would read as an import of this file. */
export const importLine = (name: string, path: string): string =>
  ["import", `{ ${name} }`, "from", `"@keyrack/sdk${path}";\n`].join(" ");

export function verifierSnippets(url: string, projectId: string): (readonly [name: string, code: string])[] {
  const code = ({ adapter, packages, imports, app }: Adapter): string =>
    `// npm install @keyrack/sdk${packages}
${importLine("createKeyrack", "")}${importLine("protect", `/${adapter}`)}${imports}
const keyrack = createKeyrack({
  url: "${url}",
  projectId: "${projectId}",
  // KEYRACK_SECRET_KEY: a secret key that may verify (Developers).
  secretKey: process.env.KEYRACK_SECRET_KEY,
});
await keyrack.ready();

${app}`;
  const gateway = `# For APIs that do not run on Node: beside nginx, Caddy, Traefik or Envoy.
export KEYRACK_URL="${url}"
export KEYRACK_PROJECT_ID="${projectId}"
# KEYRACK_SECRET_KEY: a secret key that may verify (Developers).
keyrack gateway`;
  const curl = `# Asks a gateway on this machine about a key in $KEY.
curl -i -H "authorization: Bearer $KEY" http://127.0.0.1:4748/verify`;
  return [...ADAPTERS.map((one) => [one.name, code(one)] as const), ["Gateway", gateway], ["curl", curl]];
}
