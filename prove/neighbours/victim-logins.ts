// A person of the victim's logs in, from a network where they have logged in before.
import { setTimeout as sleep } from "node:timers/promises";
import { PASSWORD, makePerson } from "../../harness/instances/world.ts";
import type { Call } from "../../harness/processes/send.ts";
import { timedCalls, type Traffic } from "./victim.ts";

/** `from` is an address of their network. */
export type VictimPerson = { email: string; from: string };

/** A person may log in 60 times in 15 minutes. */
const PAUSE_MS = 200;
const LOGINS_MAX = 25;

/** Creates their account; logging in makes the network a known one. */
export async function makeVictimPerson(call: Call, dataDir: string, seed: number): Promise<VictimPerson> {
  const from = `127.${100 + (seed % 100)}.${Math.floor(seed / 100) % 250}.1`;
  const theirs: Call = (bearer, route, body) => call(bearer, route, body, { from });
  const { email } = await makePerson(theirs, dataDir, `person-${seed}@example.com`);
  return { email, from };
}

/** Every login with the right password succeeds, and ends with its log-out. */
export async function loginTraffic(call: Call, { email, from }: VictimPerson, traffic: Traffic): Promise<void> {
  const { report, answers, end } = traffic;
  const timed = timedCalls(call, answers, "logins");
  for (let i = 0; i < LOGINS_MAX && !end.aborted; i++) {
    const { status, body } = await timed(null, "POST /v1/auth/sessions", { email, password: PASSWORD }, { from });
    report(`login: ${status}`, status !== 201);
    if (status !== 201) continue;
    const session = String(body.token);
    const out = await call(session, "DELETE /v1/auth/sessions/current", undefined, { from });
    report(`log-out: ${out.status}`, out.status >= 300);
    const after = await call(session, "GET /v1/auth/sessions", undefined, { from });
    report(`a session that has ended gets ${after.status}`, after.status !== 401);
    await sleep(PAUSE_MS + 10 * traffic.pauseMs, undefined, { signal: end }).catch(() => {});
  }
}
