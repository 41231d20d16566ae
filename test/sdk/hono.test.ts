// The adapter for hono with hono's own routing and server.

import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { expect, it } from "vitest";
import { startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";
import { until } from "../../harness/waiting.ts";
import { idempotent, protect } from "../../src/sdk/adapters/hono.ts";

it("protect reads the socket that hono's own server for node passes", async () => {
  await using instance = await startTestKeyrack();
  const app = new Hono().get("/me", protect(instance.keyrack), (c) => c.text("in"));
  const { key } = instance.plane.mint({ allowed_cidrs: ["203.0.113.0/24"], ip_mode: "enforce" });
  await until(() => instance.keyrack.status().keys === 1);
  const statusFrom = async (remoteAddress: string) => {
    const env = { incoming: { socket: { remoteAddress } } };
    return (await app.request("/me", { headers: { authorization: `Bearer ${key}` } }, env)).status;
  };
  expect([await statusFrom("203.0.113.9"), await statusFrom("198.51.100.1")]).toEqual([200, 403]);
});

it("protect reports the route, not a catch-all behind it or a middleware that responds for it", async () => {
  await using instance = await startTestKeyrack();
  const app = new Hono().use(protect(instance.keyrack));
  app.use("/large/*", bodyLimit({ maxSize: 1 })).post("/large", (c) => c.text("in"));
  app.post(
    "/charges",
    idempotent(instance.keyrack, (c) => c.text("charged")),
  );
  app.use(idempotent(instance.keyrack, (_c, next) => next()));
  app.all("/orders/:id", (c) => c.text("in")).all("*", (c) => c.text("page"));
  const { key } = instance.plane.mint();
  await until(() => instance.keyrack.status().keys === 1);
  const headers = { authorization: `Bearer ${key}`, "idempotency-key": "k" };
  const paths = ["/large", "/charges", "/orders/1", "/orders/1", "/about"];
  for (const path of paths) await app.request(path, { method: "POST", body: "{}", headers });
  for (const path of paths) await app.request(path, { method: "POST", body: "{}" });
  await instance.keyrack.close();
  const routes = ["/large", "/charges", "/orders/:id", "/orders/:id", "/*"];
  expect(instance.plane.ingest.events.map(({ route }) => route)).toEqual([...routes, ...routes]);
  expect(instance.plane.ingest.events.slice(0, 6).map(({ status }) => status)).toEqual([413, 200, 200, 200, 200, 401]);
});
