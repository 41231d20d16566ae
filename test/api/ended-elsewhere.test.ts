// Two processes on one PostgreSQL: a credential that one of them ends does nothing more in the other.
import { describe, expect, it, vi } from "vitest";
import { record } from "../../src/domain/core/record.ts";
import { revokeSessionRow } from "../../src/store/queries/sessions.ts";
import { lockUser } from "../../src/store/queries/users.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { auditRows, freshEmail, logIn, person, team } from "../../harness/instances/people.ts";
import { expectRefusal, testInstance } from "../../harness/instances/test-instance.ts";
import { actsAfterEnd } from "../../harness/models/ended-credentials.ts";
import { codeOf, holdLastByte } from "../../harness/processes/raw-http.ts";
import { until } from "../../harness/waiting.ts";

const WAITING =
  "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'transactionid'";

describe.runIf(runBackends.includes("postgres"))("a credential that another process ends", () => {
  it("stops a waiting request, a long poll, and a change that another lock would let through", async () => {
    await using a = await testInstance("postgres");
    await using b = await testInstance("postgres", { beside: a });
    const workspace = await a.workspace();
    const t = await team(a);
    const other = await logIn(a, t.owner.email);
    const query = `project_id=${workspace.project_id}&since=1&wait_ms=25000`;
    const poll = b.call(workspace.keys.sk_admin, `GET /v1/policy/delta?${query}`);
    while (b.app.services.feed.waiting === 0) await new Promise((resolve) => setImmediate(resolve));
    const mint = await holdLastByte(b.url, workspace.keys.sk_admin, "POST /v1/secret_keys", { env: "live" });
    const invite = { email: freshEmail("guest"), role: "owner" };
    const held = await holdLastByte(b.url, other.session, "POST /v1/invites", invite);
    await workspace.call("sk_owner", `POST /v1/secret_keys/${workspace.keyIds.sk_admin}/revoke`, {});
    await a.call(other.session, "DELETE /v1/auth/sessions/current");
    expectRefusal(await poll, 401, "invalid_key");
    expect(codeOf(await mint.finish())).toEqual([401, "invalid_key"]);
    expect(codeOf(await held.finish())).toEqual([401, "invalid_session"]);
    expect(actsAfterEnd(await auditRows(a, workspace.id))).toEqual([]);
  });

  it("stops a long poll and a wait for nodes although no notice came", async () => {
    await using a = await testInstance("postgres", { flags: { hot_auth_ttl_ms: "3600000" } }); // no look of its own
    const workspace = await a.workspace();
    const { feed, waitingReceipts, nodes, credentialCache } = a.app.services;
    await workspace.call("sk_owner", `GET /v1/policy/delta?project_id=${workspace.project_id}&since=0&node=behind`);
    await nodes.flushed();
    const waits = [
      `GET /v1/policy/delta?project_id=${workspace.project_id}&since=1&wait_ms=25000`,
      `GET /v1/propagation?project_id=${workspace.project_id}&version=1&wait_ms=25000`,
    ];
    const waiting = (key: "sk_admin" | "sk_owner") => Promise.all(waits.map((route) => workspace.call(key, route)));
    const [ended, others] = [waiting("sk_admin"), waiting("sk_owner")];
    await until(() => feed.waiting + waitingReceipts.size === 4);
    await a.sql("update secret_keys set revoked_at = $1 where id = $2", [a.clock.now(), workspace.keyIds.sk_admin]);
    const statements = vi.spyOn(a.app.services.store.read, "all");
    await credentialCache.evictEnded();
    expect(statements.mock.calls.filter(([{ sql }]) => sql.startsWith('select "id" from "secret_keys"'))).toHaveLength(
      1,
    );
    for (const reply of await ended) expectRefusal(reply, 401, "invalid_key");
    expect(feed.waiting + waitingReceipts.size).toBe(2); // those of the other key
    await a.sql("update secret_keys set revoked_at = $1 where id = $2", [a.clock.now(), workspace.keyIds.sk_owner]);
    await a.app.services.store.notify("resync", "");
    for (const reply of await others) expectRefusal(reply, 401, "invalid_key");
  });

  it("looks at the credentials that wait, without being asked to", async () => {
    await using a = await testInstance("postgres", { flags: { hot_auth_ttl_ms: "1000" } });
    const workspace = await a.workspace();
    const poll = workspace.call(
      "sk_admin",
      `GET /v1/policy/delta?project_id=${workspace.project_id}&since=1&wait_ms=25000`,
    );
    await until(() => a.app.services.feed.waiting === 1);
    await a.sql("update secret_keys set revoked_at = $1 where id = $2", [a.clock.now(), workspace.keyIds.sk_admin]);
    await until(() => a.app.services.feed.waiting === 0);
    expectRefusal(await poll, 401, "invalid_key");
  });

  it("counts a person's workspaces one at a time", async () => {
    await using a = await testInstance("postgres", { flags: { workspaces_per_person: "1" } });
    await using b = await testInstance("postgres", { beside: a, flags: { workspaces_per_person: "1" } });
    const { id, session } = await person(a);
    const hold = Promise.withResolvers<void>();
    const locking = record(a.app.services, async (tx) => {
      await lockUser.run(tx, { id });
      await hold.promise;
    });
    const creating = b.call(session, "POST /v1/workspaces", { name: "W", slug: "counted-once" });
    while ((await a.sql(WAITING)).length === 0);
    hold.resolve();
    await locking;
    expect((await creating).status).toBe(201);
    const again = await a.call(session, "POST /v1/workspaces", { name: "W", slug: "counted-twice" });
    expectRefusal(again, 409, "conflict");
  });

  it("waits for the log-out that is being committed, and is then refused", async () => {
    await using a = await testInstance("postgres");
    await using b = await testInstance("postgres", { beside: a });
    const t = await team(a);
    const other = await logIn(a, t.owner.email);
    const hold = Promise.withResolvers<void>();
    const ending = record(a.app.services, async (tx) => {
      await revokeSessionRow.run(tx, { id: other.session_id, revoked_at: a.clock.now() });
      await hold.promise;
    });
    const blocked = async (): Promise<boolean> => (await a.sql(WAITING)).length > 0;
    const mint = b.call(other.session, "POST /v1/secret_keys", { env: "live" });
    while (!(await blocked()));
    hold.resolve();
    await ending;
    expectRefusal(await mint, 401, "invalid_session");
    expect((await auditRows(a, t.id)).filter(({ action }) => action === "secret_key.created")).toHaveLength(1);
  });
});
