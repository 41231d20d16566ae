// Every release opens the data of every earlier one: what its users hold still works, and nothing they had is lost.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openCheckpoints } from "../../src/cli/commands/audit/verify-rows.ts";
import { VERSION } from "../../src/platform/version.ts";
import { createKeyrack } from "../../src/sdk/index.ts";
import { inspect } from "../../src/store/offline/thread-tasks.ts";
import { verifyBackup } from "../../src/backup/verify.ts";
import { runBackends, type Backend } from "../../harness/databases/backends.ts";
import { startLocalInstance, type LocalInstance } from "../../harness/instances/local-instance.ts";
import { openRelease, releases, type ReleaseData, type WorkspaceFacts } from "../../harness/instances/release-data.ts";
import { testClock } from "../../harness/instances/services.ts";

type Opened = AsyncDisposable & { old: ReleaseData; local: LocalInstance };

async function startOn(version: string, backend: Backend): Promise<Opened> {
  const old = await openRelease(version, backend);
  const { target, dir, at } = old;
  try {
    const local = await startLocalInstance({ target, dir, clock: testClock(at) });
    return {
      old,
      local,
      async [Symbol.asyncDispose]() {
        await local.app.stop();
        await old[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await old[Symbol.asyncDispose]();
    throw error;
  }
}

/** A verifier of the workspace's project that has fetched the policy. */
async function admittedKeys(url: string, { secret_keys, project_id, keys }: WorkspaceFacts): Promise<boolean[]> {
  const node = createKeyrack({ url, secretKey: secret_keys.live, projectId: project_id, nodeId: "node-2" });
  try {
    await node.ready();
    return keys.map(({ key }) => node.verify(key).ok);
  } finally {
    await node.close();
  }
}

describe("releases", () => {
  it("have left data that a test opens, this version too (npm run fixtures -- --release)", () => {
    expect(releases).toContain("0.1.0");
    expect(releases).toContain(VERSION);
  });
});

for (const version of releases) {
  for (const backend of runBackends) {
    describe(`data of ${version} on ${backend}`, () => {
      let opened: Opened;
      beforeAll(async () => {
        opened = await startOn(version, backend);
      });
      afterAll(() => opened[Symbol.asyncDispose]());

      it("serves every credential, and no revoked one", async () => {
        const { call, app } = opened.local;
        const { workspaces, people } = opened.old.facts;
        for (const workspace of workspaces) {
          const { id, secret_keys, keys } = workspace;
          expect((await call(secret_keys.live, "GET /v1/workspace")).body).toMatchObject({ id });
          expect((await call(secret_keys.test, "GET /v1/workspace")).body).toMatchObject({ id });
          expect((await call(secret_keys.revoked, "GET /v1/workspace")).status).toBe(401);
          expect(await admittedKeys(app.url, workspace)).toEqual(keys.map(({ admitted }) => admitted));
        }
        for (const { email, password, session } of people) {
          expect((await call(session, "GET /v1/auth/me")).body).toMatchObject({ user: { email } });
          expect((await call(null, "POST /v1/auth/sessions", { email, password })).status).toBe(201);
          expect((await call(null, "POST /v1/auth/sessions", { email, password: `${password}!` })).status).toBe(401);
        }
      });

      it("repeats every answer instead of acting again, and has the same usage", async () => {
        const { call } = opened.local;
        for (const { secret_keys, answered, read } of opened.old.facts.workspaces) {
          const before = (await call(secret_keys.live, "GET /v1/audit_logs/chain")).body.head_seq as number;
          expect(before).toBeGreaterThan(0);
          for (const { route, raw, headers, status, body } of answered) {
            const reply = await call(secret_keys.live, route, undefined, { raw, headers });
            expect({ route, status: reply.status, body: reply.body }).toMatchObject({ route, status, body });
          }
          for (const { route, body } of read) {
            const reply = await call(secret_keys.live, route);
            expect({ route, status: reply.status, body: reply.body }).toMatchObject({ route, status: 200, body });
          }
          expect((await call(secret_keys.live, "GET /v1/audit_logs/chain")).body.head_seq).toBe(before);
        }
      });

      it("never lowers a policy version, and continues the feed of a node that knew it", async () => {
        const { call } = opened.local;
        for (const { secret_keys, project_id, tenant_id, policy_version } of opened.old.facts.workspaces) {
          const delta = `GET /v1/policy/delta?project_id=${project_id}&since=${policy_version}&node=node-1`;
          const held = await call(secret_keys.live, delta);
          if (held.status !== 304) expect(held.body.version).toBeGreaterThan(policy_version);
          const want = { project_id, tenant_id, env: "live" };
          const { id } = (await call(secret_keys.live, "POST /v1/keys", want)).body;
          const next = (await call(secret_keys.live, delta)).body;
          expect(next.version).toBeGreaterThan(policy_version);
          const changed = (next.changes ?? next.keys) as { key_id: string }[];
          expect(changed.map(({ key_id }) => key_id)).toContain(id);
        }
      });

      it("keeps every audit chain and the checkpoint that an auditor saved", async () => {
        const { call, app } = opened.local;
        const { target, facts, dir } = opened.old;
        for (const { id, secret_keys, project_id, tenant_id, checkpoint } of facts.workspaces) {
          const { expected, workspace_id } = openCheckpoints(checkpoint.note, checkpoint.vkey);
          expect([workspace_id, expected.length]).toEqual([id, 1]);
          const { size = 0, root = "" } = expected[0] ?? {};
          expect((await call(secret_keys.live, "POST /v1/keys", { project_id, tenant_id, env: "live" })).status).toBe(
            201,
          );
          expect(await app.services.store.verify(id, [{ size, root }])).toMatchObject({ reason: null });
          const altered = `${root.startsWith("A") ? "B" : "A"}${root.slice(1)}`;
          const foreign = await app.services.store.verify(id, [{ size, root: altered }]);
          expect(foreign.reason).toBe("checkpoint_mismatch");
          const next = await call(secret_keys.live, "GET /v1/audit_logs/checkpoint");
          expect(next.headers.get("audit-vkey")).toBe(checkpoint.vkey);
          expect(openCheckpoints(next.text, checkpoint.vkey).expected[0]?.size).toBeGreaterThan(size);
        }
        const { findings, chains } = await inspect(target);
        expect({ findings, chains }).toEqual({ findings: [], chains: facts.workspaces.length + 2 });
        if (backend === "sqlite") {
          const settings = { data_dir: dir, backup_dir: "" };
          expect(await verifyBackup(settings, undefined, () => {})).toMatchObject({ ok: true, findings: [] });
        }
      });
    });
  }
}
