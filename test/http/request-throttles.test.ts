// Throttle windows of credentials are charged to their cell: the subjects that a workspace can make up cost no other
// owner one.
import { describe, expect, it } from "vitest";
import { testClock } from "../../harness/instances/test-services.ts";
import { Throttles } from "../../src/domain/limits/throttles.ts";
import { Ledger } from "../../src/fairness/ledger.ts";
import { networkOwner } from "../../src/fairness/owners.ts";
import { throttleActor } from "../../src/http/request-throttles.ts";

const BOUND = 100;
const LOGIN = { name: "login", limit: 10, windowMs: 900_000 };

describe("windows of embed tokens and secret keys", () => {
  it("give way to those of networks, however many tenants and keys a workspace uses", () => {
    const ledger = new Ledger({ bound: BOUND, share: Number.POSITIVE_INFINITY });
    const throttles = new Throttles(testClock(0), true, ledger);
    const services = { throttles, settings: { vendor_per_minute: 100 } };
    const use = (actor: object): void => {
      try {
        throttleActor(
          services as never,
          { workspace_id: "w", env: "live", ...actor } as never,
          { method: "POST" } as never,
        );
      } catch {
        // refused
      }
    };
    const logIn = (network: string, subject: string): boolean =>
      !throttles.tryTake(LOGIN, `${network} ${subject}`, networkOwner(network));
    for (let i = 0; i < 4; i++) expect(logIn("192.0.2.0/24", `${i}`)).toBe(true);
    for (let i = 0; i < BOUND; i++) use({ kind: "embed_token", tenant_id: `t${i}` });
    for (let i = 0; i < BOUND; i++) use({ kind: "secret_key", id: `k${i}` });
    expect(ledger.used).toBe(BOUND);
    for (let i = 0; i < 5; i++) expect(logIn(`198.51.${i}.0/24`, "a")).toBe(true);
    expect(logIn("192.0.2.0/24", "new")).toBe(true);
    expect(ledger.owners().map(({ owner, used }) => [owner.kind, used])[0]).toEqual(["cell", BOUND - 10]);
  });

  it("of a vendor with more customers than any network has subjects are replaced at the bound, and none is refused", () => {
    const throttles = new Throttles(testClock(0), true, new Ledger({ bound: BOUND, share: Number.POSITIVE_INFINITY }));
    const services = { throttles, settings: { vendor_per_minute: 100 } };
    const actor = (tenant_id: string) => ({ kind: "embed_token", workspace_id: "w", env: "live", tenant_id });
    const use = (tenant: string): void =>
      throttleActor(services as never, actor(tenant) as never, { method: "POST" } as never);
    for (let i = 0; i < BOUND; i++) throttles.take(LOGIN, `${i}`, networkOwner(`198.51.${i >> 2}.0/24`));
    for (let i = 0; i < BOUND; i++) use(`t${i}`);
    for (let i = 0; i < 30; i++) use("busy");
    expect(() => use("busy")).toThrow(/Too many/);
    use("another");
    expect(() => use("busy")).toThrow(/Too many/);
  });
});
