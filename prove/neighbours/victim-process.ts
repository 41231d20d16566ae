// The traffic of victims in a process of its own: in the attackers' process, its times would be those of their event
// loop.
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { send, type Call } from "../../harness/processes/send.ts";
import { seeded } from "../../harness/random.ts";
import {
  newAnswers,
  patientCalls,
  requestTraffic,
  type Answers,
  type Report,
  type Traffic,
  type Victim,
} from "./victim.ts";
import { loginTraffic, type VictimPerson } from "./victim-logins.ts";
import { nodeTraffic } from "./victim-nodes.ts";

const ROLE = "victim";

type Sent = Omit<Victim, "call">; // its calls cannot be sent
/** The first of `victims` also has nodes. */
type Start = {
  url: string;
  victims: readonly Sent[];
  person: VictimPerson;
  seed: number;
  pauseMs: number;
  measured: boolean;
};

export class VictimProcess {
  readonly #child: ChildProcess = fork(import.meta.filename, [ROLE], { stdio: ["ignore", "ignore", "inherit", "ipc"] });

  /** Returns how to stop the traffic and get its answers. */
  start({ victims, ...start }: Start): () => Promise<Answers> {
    const sent = victims.map(({ key, env, workspace_id, project_id, tenant_id }): Sent => {
      return { key, env, workspace_id, project_id, tenant_id };
    });
    this.#child.send({ ...start, victims: sent } satisfies Start);
    return async () => {
      const answered = once(this.#child, "message");
      this.#child.send("stop");
      const [answers] = (await answered) as [Answers];
      return answers;
    };
  }

  end(): void {
    this.#child.disconnect(); // it ends itself
  }
}

async function traffic(start: Start, fresh: () => string, end: AbortSignal): Promise<Answers> {
  const { url, person, seed, pauseMs, measured } = start;
  const answers = newAnswers();
  const report: Report = (what, wrong) => {
    if (wrong) answers.wrong.push(what);
  };
  const sendOnce: Call = (...args) => send(url, ...args);
  const call = measured ? sendOnce : patientCalls(sendOnce, answers);
  const victims = start.victims.map((victim) => ({ ...victim, call }));
  const shared: Traffic = { answers, report, fresh, end, pauseMs, measured };
  const parts = [
    ...victims.map((victim, i) => requestTraffic(victim, seeded(seed + i), shared)),
    ...victims.slice(0, 1).map((victim) => nodeTraffic(url, victim, shared)),
    loginTraffic(call, person, shared),
  ];
  await Promise.all(parts.map((part) => part.catch((error: Error) => report(error.message, true))));
  return answers;
}

if (process.argv[2] === ROLE && process.send) {
  let end: AbortController | undefined;
  let made = 0;
  process.on("disconnect", () => process.exit(0));
  process.on("message", (message: Start | "stop") => {
    if (message === "stop") return end?.abort();
    end = new AbortController();
    const fresh = (): string => `v${message.seed}-${++made}`;
    void traffic(message, fresh, end.signal).then((answers) => process.send?.(answers));
  });
}
