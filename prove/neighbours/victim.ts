// The traffic of a victim, and the exact model of what it must be answered: every answer is known before the request.
import { hash } from "node:crypto";
import { must, type World } from "../../harness/instances/world.ts";
import type { Random } from "../../harness/random.ts";

export type Answers = { wrong: string[]; times: number[] };
type Report = (what: string, wrong: boolean) => void;
type Step = (world: World, fresh: () => string, report: Report) => Promise<void>;

const LIMIT = 3;

/** A new customer is allowed exactly `LIMIT` times. */
const checkLimits: Step = async ({ call, key, project_id }, _fresh, report) => {
  const rule = { id: "r", limit: LIMIT, window_ms: 3_600_000, algorithm: "fixed", scope: "tenant" };
  const subject = { project_id, env: "live", tenant_id: crypto.randomUUID(), limits: [rule] };
  for (let i = 0; i <= LIMIT; i++) {
    const { status, body } = await call(key, "POST /v1/ratelimit/check", subject);
    const allowed = body?.allowed as unknown;
    report(
      `check ${i + 1} of ${LIMIT}: ${status}, allowed ${String(allowed)}`,
      status !== 200 || allowed !== i < LIMIT,
    );
  }
};

/** A key is in the feed after its minting, and gone once its revocation is complete. */
const mintAndRevoke: Step = async ({ call, key, project_id, tenant_id }, _fresh, report) => {
  const minted = await call(key, "POST /v1/keys", { project_id, tenant_id, env: "live" });
  report(`mint: ${minted.status}`, minted.status !== 201);
  if (minted.status !== 201) return;
  const { id } = minted.body;
  const listed = async (): Promise<boolean> => {
    const { keys } = await must(call(key, `GET /v1/policy/snapshot?project_id=${project_id}&env=live`));
    return (keys as { key_id: string }[]).some(({ key_id }) => key_id === id);
  };
  report("a minted key is not in the snapshot", !(await listed()));
  const revoked = await call(key, `POST /v1/keys/${id}/revoke?wait=true`, {});
  report(`revoke: ${revoked.status}`, revoked.status !== 200 || revoked.body.revoked_at === null);
  report("a revoked key is in the snapshot", await listed());
};

/** Of two claims the first may execute, the second must wait. */
const claimOnce: Step = async ({ call, key }, fresh, report) => {
  const sha256 = (text: string): string => hash("sha256", text);
  const scope = { env: "live", scope_hash: sha256(fresh()), fingerprint: sha256("request") };
  for (const expected of ["execute", "in_progress"]) {
    const { status, body } = await call(key, "POST /v1/idempotency/claim", scope);
    report(`claim: ${status} ${String(body?.state)}, not ${expected}`, body?.state !== expected);
  }
};

const makeTenant: Step = async ({ call, key }, fresh, report) => {
  const external_id = fresh();
  const made = await call(key, "POST /v1/tenants", { external_id });
  report(`tenant: ${made.status}`, made.status !== 201);
  const shown = await call(key, `GET /v1/tenants/${made.body?.id}`);
  report(`tenant read: ${shown.status}`, shown.body?.external_id !== external_id);
};

const steps = [checkLimits, mintAndRevoke, claimOnce, makeTenant];

/** Runs steps one after another until the end. */
export async function victimTraffic(
  world: World,
  random: Random,
  fresh: () => string,
  end: AbortSignal,
): Promise<Answers> {
  const answers: Answers = { wrong: [], times: [] };
  const timed: World["call"] = async (...args) => {
    const started = performance.now();
    const reply = await world.call(...args);
    answers.times.push(performance.now() - started);
    return reply;
  };
  const report: Report = (what, wrong) => {
    if (wrong) answers.wrong.push(what);
  };
  while (!end.aborted) {
    const step = random.pick(steps);
    await step({ ...world, call: timed }, fresh, report).catch((error: Error) => report(error.message, true));
  }
  return answers;
}
