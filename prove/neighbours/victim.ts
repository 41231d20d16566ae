// The traffic of a victim, and the exact model of what it must be answered: every answer is known before the request.
import { hash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { must, type World } from "../../harness/instances/world.ts";
import { until } from "../../harness/waiting.ts";
import type { Random } from "../../harness/random.ts";

/** What is timed apart: a revocation waits for the nodes, a login for its password. */
type Timed = "requests" | "revocations" | "logins";
/** `invited`: addresses to which a letter must be delivered. */
export type Answers = {
  wrong: string[];
  /** Answers that only took too long: a 503 or an incomplete receipt, where times are not judged. */
  late: number;
  times: Record<Timed, number[]>;
  invited: string[];
};
export type Report = (what: string, wrong: boolean) => void;
/** A workspace, and the environment of its key. */
export type Victim = World & { env: "live" | "test" };
type Step = (world: Victim, fresh: () => string, report: Report, invited: string[]) => Promise<void>;

const LIMIT = 3;
/** Of one phase: an account may send 100 in a day. */
const INVITES_MAX = 10;

const newCustomer = ({ project_id, env }: Victim) => {
  const rule = { id: "r", limit: LIMIT, window_ms: 3_600_000, algorithm: "sliding", scope: "tenant" }; // a fixed one may begin in between
  return { project_id, env, tenant_id: crypto.randomUUID(), limits: [rule] };
};

/** A new customer is allowed exactly `LIMIT` times. */
const checkLimits: Step = async (victim, _fresh, report) => {
  const { call, key } = victim;
  const subject = newCustomer(victim);
  for (let i = 0; i <= LIMIT; i++) {
    const { status, body } = await call(key, "POST /v1/ratelimit/check", subject);
    const allowed = body?.allowed as unknown;
    report(
      `check ${i + 1} of ${LIMIT}: ${status}, allowed ${String(allowed)}`,
      status !== 200 || allowed !== i < LIMIT,
    );
  }
};

/** Of a new customer's units two leases get exactly all. */
const leaseLimits: Step = async (victim, _fresh, report) => {
  const { call, key } = victim;
  const subject = { ...newCustomer(victim), want: LIMIT - 1 };
  for (const expected of [LIMIT - 1, 1, 0]) {
    const { status, body } = await call(key, "POST /v1/ratelimit/lease", subject);
    report(`lease: ${status}, ${String(body?.granted)} of ${expected}`, body?.granted !== expected);
  }
};

/** A key is in the feed after its minting, and gone once it is revoked. */
const mintAndRevoke: Step = async ({ call, key, project_id, tenant_id, env }, _fresh, report) => {
  const minted = await call(key, "POST /v1/keys", { project_id, tenant_id, env });
  report(`mint: ${minted.status}`, minted.status !== 201);
  if (minted.status !== 201) return;
  const { id } = minted.body;
  const listed = async (): Promise<boolean> => {
    const { keys } = await must(call(key, `GET /v1/policy/snapshot?project_id=${project_id}&env=${env}`));
    return (keys as { key_id: string }[]).some(({ key_id }) => key_id === id);
  };
  report("a minted key is not in the snapshot", !(await listed()));
  const revoked = await call(key, `POST /v1/keys/${id}/revoke`, {});
  report(`revoke: ${revoked.status}`, revoked.status !== 200 || revoked.body.revoked_at === null);
  report("a revoked key is in the snapshot", await listed());
};

/** Of two claims the first may execute, the second must wait. */
const claimOnce: Step = async ({ call, key, env }, fresh, report) => {
  const sha256 = (text: string): string => hash("sha256", text);
  const scope = { env, scope_hash: sha256(fresh()), fingerprint: sha256("request") };
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

const invite: Step = async ({ call, key, env }, fresh, report, invited) => {
  if (env === "test" || invited.length >= INVITES_MAX) return;
  const email = `${fresh()}@example.com`;
  invited.push(email); // before the response: other victims share the bound
  const { status } = await call(key, "POST /v1/invites", { email, role: "member" });
  report(`invite: ${status}`, status !== 201);
};

const steps = [checkLimits, leaseLimits, mintAndRevoke, claimOnce, makeTenant, invite];

/** The parts of a victim's traffic share this. `end` is aborted when the phase ends. */
export type Traffic = {
  answers: Answers;
  report: Report;
  fresh: () => string;
  end: AbortSignal;
  pauseMs: number;
  /** False on a busy machine: what takes too long is counted apart. */
  measured: boolean;
};

export const newAnswers = (): Answers => ({
  wrong: [],
  late: 0,
  times: { requests: [], revocations: [], logins: [] },
  invited: [],
});

/** Repeats a call while the service is unavailable. */
export function patientCalls(call: World["call"], answers: Answers): World["call"] {
  return async (...args) => {
    let reply = await call(...args);
    await until(async () => {
      if (reply.status !== 503) return true;
      answers.late++;
      reply = await call(...args);
      return false;
    });
    return reply;
  };
}

/** Times the calls, as this kind. */
export function timedCalls(call: World["call"], { times }: Answers, kind: Timed): World["call"] {
  return async (...args) => {
    const started = performance.now();
    const reply = await call(...args);
    times[kind].push(performance.now() - started);
    return reply;
  };
}

/** Runs steps one after another until the end. */
export async function requestTraffic(
  victim: Victim,
  random: Random,
  { answers, report, fresh, end, pauseMs }: Traffic,
): Promise<void> {
  const timed = timedCalls(victim.call, answers, "requests");
  while (!end.aborted) {
    const step = random.pick(steps);
    await step({ ...victim, call: timed }, fresh, report, answers.invited).catch((error: Error) =>
      report(error.message, true),
    );
    if (pauseMs > 0) await sleep(pauseMs);
  }
}
