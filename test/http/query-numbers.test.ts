// Whole numbers in queries: all that JSON can express exactly, and a refusal that says what is expected.
import { beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../harness/databases/backends.ts";
import { sharedInstance, type Workspace } from "../../harness/instances/test-instance.ts";

const MAX = Number.MAX_SAFE_INTEGER;

for (const backend of runBackends) {
  describe(`a number in a query on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let workspace: Workspace;
    beforeAll(async () => {
      workspace = await instance.workspace();
    });

    it("may be as large as a safe integer", async () => {
      const get = (path: string) => workspace.call("sk_owner", `GET ${path}`);
      const { project_id } = workspace;
      const ahead = await get(`/v1/policy/delta?project_id=${project_id}&since=${MAX}`);
      expect([ahead.status, ahead.body.object], ahead.text).toEqual([200, "policy_snapshot"]);
      const page = await get(`/v1/policy/snapshot?project_id=${project_id}&max_keys=${MAX}`);
      expect([page.status, page.body.object], page.text).toEqual([200, "policy_snapshot"]);
      const log = await get(`/v1/audit_logs?after_seq=${MAX}`);
      expect([log.status, log.body.data], log.text).toEqual([200, []]);
    });

    it("is refused as no whole number where it is none, and as too large above that", async () => {
      const messageOf = async (value: string): Promise<unknown> => {
        const { status, body } = await workspace.call("sk_owner", `GET /v1/audit_logs?after_seq=${value}`);
        return [status, body.error.details];
      };
      for (const value of ["", "x", "1.5", "1e3", "0x1", " 1", "99999999999999999"])
        expect(await messageOf(value)).toEqual([400, [{ path: "after_seq", message: "must be a whole number" }]]);
      for (const value of ["9007199254740992", "9007199254740993", "9999999999999999"])
        expect(await messageOf(value)).toEqual([400, [{ path: "after_seq", message: `must be at most ${MAX}` }]]);
    });
  });
}
