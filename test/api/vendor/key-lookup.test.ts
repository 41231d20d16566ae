// A pasted key leaves nothing behind, also when the request has an Idempotency-Key, and a text that is no API key has
// a code.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedInstance } from "../../../harness/instances/test-instance.ts";

for (const backend of runBackends) {
  describe(`looking up a key on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("ignores an Idempotency-Key: every key gets its own answer, and none is stored", async () => {
      const workspace = await instance.workspace();
      const [first, second] = [await workspace.mint(), await workspace.mint()];
      const tables = ["kept_answers", "idempotency_records"];
      const rows = async (): Promise<unknown[]> =>
        Promise.all(tables.map(async (table) => (await instance.sql(`select count(*) as n from ${table}`))[0]?.n));
      const before = await rows();
      const headers = { "idempotency-key": '"lookup-1"' };
      for (const { key, id } of [first, second, first]) {
        const reply = await workspace.call("sk_owner", "POST /v1/keys/lookup", { key }, { headers });
        expect([reply.status, reply.body.record.id, reply.headers.get("idempotent-replayed")]).toEqual([200, id, null]);
      }
      await workspace.call("sk_owner", `POST /v1/keys/${first.id}/revoke`, {});
      const revoked = await workspace.call("sk_owner", "POST /v1/keys/lookup", { key: first.key }, { headers });
      expect([revoked.body.admitted, revoked.body.reasons[0].code]).toEqual([false, "revoked"]);
      expect(await rows()).toEqual(before);
    });

    it("has a code whenever a cause refuses, also for what is no API key", async () => {
      const workspace = await instance.workspace();
      const { key } = (await workspace.call("sk_owner", "POST /v1/secret_keys", { env: "live" })).body;
      const secretKey = key as string;
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_prefix: "lookupco" });
      for (const [text, reasons, admitted] of [
        ["foo", ["malformed"], null],
        [secretKey, ["not_an_api_key"], null],
        [`${secretKey}x`, ["bad_checksum", "not_an_api_key"], null],
        ["krboot_x", ["bad_checksum", "not_an_api_key"], null],
        ["kr_live_x", ["bad_checksum"], false],
        [`lookupco_live_${"x".repeat(40)}`, ["bad_checksum"], false],
        [`otherco_live_${"x".repeat(40)}`, ["malformed"], null],
      ] as const) {
        const { body } = await workspace.call("sk_owner", "POST /v1/keys/lookup", { key: text });
        expect(body.reasons.map((each: { code: string }) => each.code)).toEqual(reasons);
        expect([body.admitted, body.code]).toEqual([admitted, "invalid_key"]);
      }
    });
  });
}
