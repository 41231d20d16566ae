// The authorisation matrix, cell by cell: every endpoint against every kind of credential there is.
// A cell that admits is recognised by a response about the request instead of the credential.
import { beforeAll, describe, expect, it } from "vitest";
import { access, CREDENTIAL_KINDS, isHolderPlane, type CredentialKind } from "../../src/http/access.ts";
import type { Endpoint } from "../../src/http/endpoint.ts";
import { endpoints } from "../../src/api/index.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { principals, type Principals } from "../../harness/instances/principals.ts";
import { sharedInstance, type Reply } from "../../harness/instances/test-instance.ts";

const NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057";
const routeOf = ({ method, path }: Endpoint): string => `${method} ${path.replace(/\{\w+\}/g, NOWHERE)}`;
/** Refusals of the credential; any other response means that the credential was accepted. */
const ABOUT_CREDENTIAL = ["unauthenticated", "invalid_key", "invalid_session", "invalid_embed_token", "forbidden"];

function verdict(reply: Reply): "401" | "-" | "Y" {
  const code = reply.body?.error?.code as string | undefined;
  if (reply.status === 401 && ABOUT_CREDENTIAL.includes(code ?? "")) return "401";
  return reply.status === 403 && code === "forbidden" ? "-" : "Y";
}

describe("the matrix", () => {
  it("has a row for every route", () => {
    for (const endpoint of endpoints) expect(access[endpoint.access], endpoint.name).toBeDefined();
  });

  it("names a refusal for every cell that refuses", () => {
    for (const row of Object.values(access)) expect(Object.keys(row.rules)).toEqual([...CREDENTIAL_KINDS]);
  });

  it("lists each endpoint once", () => {
    const names = endpoints.map(({ name }) => name);
    expect(names).toEqual([...new Set(names)]);
  });
});

/** How a credential is looked up depends on the database, what an endpoint admits does not. */
const oneOfEachRow = [...new Map(endpoints.map((endpoint) => [endpoint.access, endpoint])).values()];

for (const backend of runBackends) {
  describe(`the matrix on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let who: Principals;
    beforeAll(async () => {
      who = await principals(instance);
    });

    for (const endpoint of backend === "sqlite" ? endpoints : oneOfEachRow) {
      const row = access[endpoint.access];
      it(`${endpoint.name} responds to each credential as its row says`, async () => {
        const body = endpoint.method === "GET" || endpoint.method === "DELETE" ? undefined : {};
        const wanted: Partial<Record<CredentialKind, string>> = {};
        const got: Partial<Record<CredentialKind, string>> = {};
        for (const kind of CREDENTIAL_KINDS) {
          if (!(kind in who.credentials)) continue;
          const { bearer, headers } = who.credentials[kind] ?? { bearer: null };
          const reply = await instance.call(bearer, routeOf(endpoint), body, headers ? { headers } : {});
          wanted[kind] = row.open ? "Y" : row.rules[kind].replace("T", "Y");
          got[kind] = row.open && reply.status !== 401 ? "Y" : verdict(reply);
        }
        expect(got).toEqual(wanted);
        if (/^\/v1\/(auth\/sessions|self)/.test(endpoint.path)) await who.renew();
      });

      if (!row.open) {
        it(`${endpoint.name} rejects every expired or revoked credential, and says how to authenticate`, async () => {
          for (const [why, bearer] of Object.entries(who.ended)) {
            if (isHolderPlane(endpoint.access) && why === "a customer's key") continue; // here it is valid
            const reply = await instance.call(bearer, routeOf(endpoint));
            expect(reply.status, why).toBe(401);
            expect(reply.headers.get("www-authenticate"), why).toBe('Bearer realm="keyrack", error="invalid_token"');
          }
          const none = await instance.call(null, routeOf(endpoint));
          expect(none.headers.get("www-authenticate")).toBe('Bearer realm="keyrack"');
        });
      }
    }
  });
}
