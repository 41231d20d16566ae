// Claims wait for their commit at the expense of the account: cells of one account do not add up to many shares.
import { describe, expect, it } from "vitest";
import { keyActor, testClock } from "../../../harness/instances/test-services.ts";
import { claim, complete, databaseClaims, heartbeat, release } from "../../../src/domain/idempotency/claims.ts";
import { cellOwner, type Owner } from "../../../src/fairness/owners.ts";

const HASH = "a".repeat(64);

describe("claims in the database", () => {
  it("are charged to the cell of the record and to the account of its workspace", async () => {
    const owners: Owner[] = [];
    const store = {
      write: ({ owner }: { owner: Owner }) => Promise.resolve({ state: "mismatch", at: owners.push(owner) }),
    };
    const base = {
      store,
      clock: testClock(),
      vault: { seal: () => new Uint8Array() },
      writtenBytes: { hasRoom: () => true },
    };
    const services = { ...base, claims: databaseClaims(base as never) };
    const ctx = { services, actor: { ...keyActor("w", { id: "k", env: "live" }), account_id: "person" } } as never;
    const name = { scope_hash: HASH, env: "test", lock_token: "x" } as const;
    await claim(ctx, { ...name, fingerprint: HASH });
    await complete(ctx, { ...name, status: 200, headers: {}, body: null });
    await heartbeat(ctx, name);
    await release(ctx, name);
    expect(owners).toEqual(Array.from({ length: 4 }, () => cellOwner("w", "test", "person")));
  });
});
