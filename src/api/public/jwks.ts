// The public keys of embed tokens, cacheable for five minutes.
import { z } from "zod";
import { publishedKeys } from "../../domain/embed/signing-keys.ts";
import { endpoint } from "../../http/endpoint.ts";

export const jwksShow = endpoint("GET /.well-known/jwks.json", {
  summary: "The public keys that verify embed tokens: the current, the next and a recently retired one.",
  access: "public",
  cors: "any",
  looseQuery: true,
  headers: { "cache-control": "public, max-age=300" },
  output: z.strictObject({
    keys: z.array(
      z.strictObject({
        kty: z.literal("OKP"),
        crv: z.literal("Ed25519"),
        x: z.string(),
        use: z.literal("sig"),
        alg: z.literal("EdDSA"),
        kid: z.string(),
      }),
    ),
  }),
  handle: async ({ services }) => ({ keys: await publishedKeys(services) }),
});
