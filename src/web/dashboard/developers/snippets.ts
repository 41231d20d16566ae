// Code that uses a secret key, with the server's address filled in.
import type { Env } from "../../../kernel/credentials.ts";
import { importLine } from "../projects/snippets.ts";

export function apiSnippets(url: string, env: Env): (readonly [name: string, code: string])[] {
  return [
    [
      "curl",
      `curl -H "authorization: Bearer $KEYRACK_SECRET_KEY" \\
  "${url}/v1/keys?env=${env}"`,
    ],
    [
      "CLI",
      `export KEYRACK_URL="${url}"
# KEYRACK_SECRET_KEY: a secret key that may read.
keyrack key list --env ${env}`,
    ],
    [
      "SDK",
      `// npm install @keyrack/sdk
${importLine("createKeyrack", "")}
const keyrack = createKeyrack({
  url: "${url}",
  projectId: process.env.KEYRACK_PROJECT_ID,
  // KEYRACK_SECRET_KEY: a secret key that may verify.
  secretKey: process.env.KEYRACK_SECRET_KEY,
});
await keyrack.ready();
const result = keyrack.verify(key, { scopes: ["orders:read"] });`,
    ],
  ];
}
