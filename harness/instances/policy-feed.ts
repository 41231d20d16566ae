// The policy feed of one project under test: one instance per describe, one workspace per test, and a node's calls.
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { Backend } from "../databases/backends.ts";
import { testInstance, type Reply, type TestInstance, type Workspace } from "./test-instance.ts";

export type Body = Record<string, unknown>;
export type Entry = { key_id: string; change?: string } & Body;

/** Call it in a describe; `now()` returns the current test's. */
export function policyFeed(back: Backend) {
  let r: TestInstance;
  let w: Workspace;
  beforeAll(async () => {
    r = await testInstance(back, { flags: { snapshot_max_keys: "4" } });
  });
  afterAll(() => r[Symbol.asyncDispose]());
  beforeEach(async () => {
    w = await r.workspace();
  });

  const snapshot = (more = "", headers: Record<string, string> = {}): Promise<Reply> =>
    w.call("sk_owner", `GET /v1/policy/snapshot?project_id=${w.project_id}${more}`, undefined, { headers });
  const delta = (since: number, more = "", headers: Record<string, string> = {}): Promise<Reply> =>
    w.call("sk_owner", `GET /v1/policy/delta?project_id=${w.project_id}&since=${since}${more}`, undefined, {
      headers,
    });
  const version = async (): Promise<number> =>
    (await w.call("sk_owner", `GET /v1/projects/${w.project_id}`)).body.policy_version as number;
  const ids = (reply: Reply): string[] =>
    ((reply.body.keys ?? reply.body.changes) as Entry[]).map(({ key_id }) => key_id);
  const revoke = (id: string, more = ""): Promise<Reply> => w.call("sk_owner", `POST /v1/keys/${id}/revoke${more}`, {});
  const nodes = (): Promise<Body[]> =>
    r.app.services.nodes
      .flushed()
      .then(() => r.sql("select * from policy_nodes where project_id = $1", [w.project_id]));
  return { now: () => ({ r, w }), snapshot, delta, version, ids, revoke, nodes };
}
