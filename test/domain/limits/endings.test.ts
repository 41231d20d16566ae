// What ends a credential is not refused for want of room: neither at the share of the disk, nor while the disk is
// almost full.
import { describe, expect, it, vi } from "vitest";
import { runBackends, type Backend } from "../../../harness/databases/backends.ts";
import { embed } from "../../../harness/instances/embed.ts";
import { freshEmail, lastMail, logIn, PASSWORD, person, type Person } from "../../../harness/instances/people.ts";
import { report, ROUTE as SCANNER, scannerKeysFile, WHERE } from "../../../harness/instances/scanner.ts";
import {
  expectRefusal,
  testInstance,
  type Reply,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { endpoints } from "../../../src/api/index.ts";
import { ENDING_ACTIONS } from "../../../src/domain/core/events.ts";
import { cellOwner, soleOwner } from "../../../src/fairness/owners.ts";
import { MIB } from "../../../src/kernel/sizes.ts";

const BULK = "POST /v1/bulk/keys";

/** They end something beside what they make. */
const MAKE_SOMETHING = ["POST /v1/auth/sessions", "POST /v1/secret_keys/{id}/rotate", "POST /v1/setup"];

type Want = { of: string; flags: Record<string, string>; refusal: [status: number, code: string] };

const SHARE: Want = { of: "share", flags: { writes_mb_per_day: "66" }, refusal: [429, "rate_limited"] };
const DISK: Want = { of: "disk", flags: { disk_reserve_mb: "100000000" }, refusal: [503, "unavailable"] };
/** The disk of PostgreSQL is not watched. */
const wantsOn = (backend: Backend): Want[] => (backend === "sqlite" ? [SHARE, DISK] : [SHARE]);

async function fill({ app }: TestInstance, workspace: Workspace, ...people: Person[]): Promise<void> {
  const { writtenBytes } = app.services;
  const owners = [cellOwner(workspace.id, "live"), ...people.map(({ id }) => soleOwner("person", id))];
  for (const owner of owners) writtenBytes.add(owner, 66 * MIB);
  await writtenBytes.flush();
}

/** Everything that can be ended, and a request of each endpoint that ends it; no two end the same. */
async function endings(instance: TestInstance) {
  const embedded = await embed(instance);
  const { workspace } = embedded;
  const { tenant_id } = workspace;
  const own = (route: string, body?: unknown): Promise<Reply> => workspace.call("sk_owner", route, body);
  const made = async (route: string, body: object): Promise<string> => {
    const reply = await own(route, body);
    expect(reply.status, reply.text).toBe(201);
    return reply.body.id;
  };
  const key = () => workspace.mint();
  const [revoked, disabled, customers, holders, leaked] = [
    await key(),
    await key(),
    await key(),
    await key(),
    await key(),
  ];
  await own(`PATCH /v1/tenants/${tenant_id}`, { quotas: [{ id: "calls", amount: 10, refill: "none" }] });
  const grant = await made(`POST /v1/tenants/${tenant_id}/quotas/calls/grants`, { units: 5 });
  const plan = await made("POST /v1/plans", { name: "Plan", slug: "plan" });
  const project = await made("POST /v1/projects", { name: "Other", slug: "other" });
  const tenant = await made("POST /v1/tenants", { external_id: "other" });
  const secret_key = await made("POST /v1/secret_keys", { env: "live" });
  const invite = await made("POST /v1/invites", { email: freshEmail(), role: "member" });
  const [member, forgetful] = [await person(instance), await person(instance)];
  const invited = await own("POST /v1/invites", { email: member.email, role: "member" });
  await instance.call(member.session, "POST /v1/auth/invites/accept", { token: invited.body.token });
  const elsewhere = await logIn(instance, member.email);
  await instance.call(null, "POST /v1/auth/password_resets", { email: forgetful.email });
  const { token } = await lastMail(instance, forgetful.email);
  const password = "another horse, another battery";
  const asMember = (route: string, body?: unknown): Promise<Reply> => instance.call(member.session, route, body);
  const requests: Record<string, () => Promise<Reply>> = {
    "DELETE /v1/auth/sessions/{id}": () => asMember(`DELETE /v1/auth/sessions/${elsewhere.session_id}`),
    "POST /v1/auth/me/password": () => asMember("POST /v1/auth/me/password", { current_password: PASSWORD, password }),
    "POST /v1/auth/password_resets/consume": () =>
      instance.call(null, "POST /v1/auth/password_resets/consume", { token, password }),
    "DELETE /v1/auth/sessions/current": () => asMember("DELETE /v1/auth/sessions/current"),
    "DELETE /v1/members/{userId}": () => own(`DELETE /v1/members/${member.id}`),
    "POST /v1/invites/{id}/revoke": () => own(`POST /v1/invites/${invite}/revoke`, {}),
    "POST /v1/keys/{id}/revoke": () => own(`POST /v1/keys/${revoked.id}/revoke`, {}),
    "POST /v1/keys/{id}/disable": () => own(`POST /v1/keys/${disabled.id}/disable`, {}),
    "POST /v1/embed/keys/{id}/revoke": () => embedded.call(`POST /v1/embed/keys/${customers.id}/revoke`, {}),
    "POST /v1/self/revoke": () => instance.call(holders.key, "POST /v1/self/revoke", {}),
    [SCANNER]: () => report(instance, [{ token: leaked.key, ...WHERE }]),
    [BULK]: () => own(BULK, { action: "revoke", filter: { ids: [disabled.id] } }),
    "POST /v1/secret_keys/{id}/revoke": () => own(`POST /v1/secret_keys/${secret_key}/revoke`, {}),
    "POST /v1/quota_grants/{id}/void": () => own(`POST /v1/quota_grants/${grant}/void`, {}),
    "DELETE /v1/plans/{id}": () => own(`DELETE /v1/plans/${plan}`),
    "DELETE /v1/projects/{id}": () => own(`DELETE /v1/projects/${project}`),
    "POST /v1/tenants/{id}/embed_tokens/revoke": () => own(`POST /v1/tenants/${tenant_id}/embed_tokens/revoke`, {}),
    "POST /v1/tenants/{id}/suspend": () => own(`POST /v1/tenants/${tenant_id}/suspend`, {}),
    "DELETE /v1/tenants/{id}": () => own(`DELETE /v1/tenants/${tenant}`),
  };
  return { workspace, requests, people: [member, forgetful] };
}

for (const backend of runBackends) {
  describe.each(wantsOn(backend))(`without room because of the $of on ${backend}`, ({ flags, refusal }) => {
    const start = async (more: Record<string, string> = {}) =>
      testInstance(backend, { flags: { throttle: "on", ...flags, ...more } });

    it("every endpoint that ends something succeeds", async () => {
      using keys = scannerKeysFile();
      await using instance = await start({ scanner_keys_file: keys.file });
      const { workspace, requests, people } = await endings(instance);
      const ending = endpoints.filter(({ emits }) => emits.some((action) => ENDING_ACTIONS.has(action)));
      const names = ending.map(({ name }) => name).filter((name) => !MAKE_SOMETHING.includes(name));
      expect(Object.keys(requests).toSorted()).toEqual(names.toSorted());
      await fill(instance, workspace, ...people);
      expectRefusal(await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "late" }), ...refusal);
      for (const [name, request] of Object.entries(requests)) {
        const { status, text } = await request();
        expect([name, status, status === 200 ? "" : text]).toEqual([name, 200, ""]);
      }
    });

    it("bulk actions that enable, rotate or cap are refused, those that revoke, disable or change nothing succeed", async () => {
      await using instance = await start();
      const workspace = await instance.workspace();
      const [{ id }, { id: other }] = [await workspace.mint(), await workspace.mint()];
      await workspace.call("sk_owner", `POST /v1/keys/${other}/disable`, {});
      const bulk = (action: string, more: object = {}, key?: string): Promise<Reply> =>
        workspace.call(
          "sk_owner",
          BULK,
          { action, filter: { project_id: workspace.project_id }, ...more },
          key ? { headers: { "idempotency-key": key } } : {},
        );
      const rotated = await bulk("rotate", { filter: { ids: [id] } }, "rotated");
      expect([rotated.status, rotated.body.changed]).toEqual([200, 1]);
      await fill(instance, workspace);
      const before = await workspace.actions();
      for (const action of ["enable", "rotate", "cap_expiry"]) {
        expectRefusal(await bulk(action), ...refusal);
        expect((await bulk(action, { dry_run: true })).status, action).toBe(200);
      }
      expect(await workspace.actions()).toEqual(before);
      const again = await bulk("rotate", { filter: { ids: [id] } }, "rotated");
      expect([again.headers.get("idempotent-replayed"), again.body]).toEqual(["true", rotated.body]);
      // The share may be used up while a rotation runs: what it made is shown only in its response.
      const room = vi.spyOn(instance.app.services.writtenBytes, "requireRoom").mockReturnValueOnce();
      const late = await bulk("rotate", {}, "late");
      room.mockRestore();
      expect([late.status, late.body.changed]).toEqual([200, 1]);
      expect((await bulk("rotate", {}, "late")).body).toEqual(late.body);
      const kept = await instance.sql("select status from kept_answers");
      for (const [action, changed] of [
        ["disable", 3],
        ["revoke", 4],
      ] as const) {
        const { status, body } = await bulk(action, {}, action);
        expect([status, body.changed]).toEqual([200, changed]);
      }
      expect(await instance.sql("select status from kept_answers")).toEqual(kept);
    });
  });
}
