// An express API protected by Keyrack keys: scopes per route, separate data for each customer, a test environment that
// cannot access live data, and restarts that work while Keyrack is down.
import express from "express";
import { createKeyrack } from "@keyrack/sdk";
import { protect } from "@keyrack/sdk/express";

// The data of each environment: two Maps here, two databases in your application.
const resources = { live: { orders: new Map() }, test: { orders: new Map() } };

const keyrack = createKeyrack({
  url: process.env.KEYRACK_URL,
  secretKey: process.env.KEYRACK_SECRET_KEY,
  projectId: process.env.KEYRACK_PROJECT_ID,
  cacheFile: process.env.KEYRACK_CACHE_FILE || undefined,
  staleMs: Number(process.env.KEYRACK_STALE_MS ?? 30_000),
  resources,
  log: (level, message, fields) => level !== "debug" && console.error(level, message, fields),
});
await keyrack.ready();

const app = express();
app.use(express.json());

// For your load balancer. Open to all, so it shows neither the policy's version nor the number of keys.
app.get("/health", (_req, res) => {
  const { version, degraded } = keyrack.status();
  res.status(version === null ? 503 : 200).json({ degraded });
});

app.get("/orders", protect(keyrack, { scopes: ["orders:read"] }), (req, res) => {
  const { tenantId, resources } = req.keyrack;
  res.json({ orders: resources.orders.get(tenantId) ?? [] });
});

app.post("/orders", protect(keyrack, { scopes: ["orders:write"] }), (req, res) => {
  const { tenantId, resources, env } = req.keyrack;
  const orders = resources.orders.get(tenantId) ?? [];
  const order = { id: orders.length + 1, item: req.body?.item ?? null, env };
  resources.orders.set(tenantId, [...orders, order]);
  res.status(201).json(order);
});

const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});

for (const signal of ["SIGINT", "SIGTERM"]) {
  // Requests in flight complete first: from close() on, the library refuses every key.
  process.once(signal, () => {
    server.close(async () => {
      await keyrack.close();
      process.exit(0);
    });
  });
}
