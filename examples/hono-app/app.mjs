// A hono API protected by Keyrack keys: every route but one is protected, and rate limits are spent from a lease, so
// that a busy customer does not need a call to Keyrack for each request.
import { Hono } from "hono";
import { serve } from "srvx";
import { createKeyrack } from "@keyrack/sdk";
import { protect } from "@keyrack/sdk/hono";

const keyrack = createKeyrack({
  url: process.env.KEYRACK_URL,
  secretKey: process.env.KEYRACK_SECRET_KEY,
  projectId: process.env.KEYRACK_PROJECT_ID,
});
await keyrack.ready();

const app = new Hono();
app.use(protect(keyrack, { limits: "lease", skip: (c) => c.req.path === "/health" }));

// For your load balancer; open to all, so it says no more than that.
app.get("/health", (c) => c.body(null, keyrack.status().version === null ? 503 : 204));

app.get("/whoami", (c) => {
  const { tenantId, env, scopes, rateLimit } = c.get("keyrack");
  return c.json({ tenantId, env, scopes: [...scopes], rateLimit });
});

app.delete("/everything", (c) => {
  // A scope that only some requests need can be checked in the handler.
  if (!c.get("keyrack").scopes.has("everything:delete")) return c.json({ error: "not with this key" }, 403);
  return c.json({ deleted: true });
});

const server = serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000), hostname: "127.0.0.1", silent: true });
await server.ready();
console.log(`listening on ${server.url.replace(/\/$/, "")}`);

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, async () => {
    await server.close(); // completes requests in flight
    await keyrack.close();
    process.exit(0);
  });
}
