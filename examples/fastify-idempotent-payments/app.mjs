// A payments endpoint that charges once, however often a client retries: the same Idempotency-Key gets the same
// response. An unreachable bank throws, which lets a retry run; a declined card is a response, and is replayed.
import fastify from "fastify";
import { createKeyrack } from "@keyrack/sdk";
import { idempotent, protect } from "@keyrack/sdk/fastify";

const keyrack = createKeyrack({
  url: process.env.KEYRACK_URL,
  secretKey: process.env.KEYRACK_SECRET_KEY,
  projectId: process.env.KEYRACK_PROJECT_ID,
});
await keyrack.ready();

const charges = new Map(); // by tenant: no customer sees those of another

/** Stands for your payment provider. */
async function bank({ amount, card }, tenantId) {
  if (card === "bank_away") throw Object.assign(new Error("The bank does not answer."), { statusCode: 502 });
  if (card === "refused") return { paid: false };
  charges.set(tenantId, [...(charges.get(tenantId) ?? []), amount]);
  return { paid: true };
}

const app = fastify();

// These routes move money or show it: they fail closed without a policy, whatever other routes do.
const needs = (scope) => ({ onRequest: protect(keyrack, { scopes: [scope], failMode: "closed" }) });

const charge = async (request, reply) => {
  const { tenantId } = request.keyrack;
  const { paid } = await bank(request.body, tenantId);
  if (!paid) return reply.code(402).send({ error: "The card was refused." });
  return reply.code(201).send({ id: `ch_${charges.get(tenantId).length}`, tenant: tenantId });
};
app.post("/charges", needs("charges:write"), idempotent(keyrack, charge, { required: true, ttlMs: 86_400_000 }));

app.get("/charges", needs("charges:read"), async ({ keyrack }) => ({ charges: charges.get(keyrack.tenantId) ?? [] }));

app.addHook("onClose", () => keyrack.close());
const address = await app.listen({ port: Number(process.env.PORT ?? 3000), host: "127.0.0.1" });
console.log(`listening on ${address}`);

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, async () => {
    await app.close();
    process.exit(0);
  });
}
