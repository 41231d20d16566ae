// The traffic of victims in a process of its own: in the attackers' process, its times would be those of their event
// loop.
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { send, type Call } from "../../harness/processes/send.ts";
import type { World } from "../../harness/instances/world.ts";
import { seeded } from "../../harness/random.ts";
import { newAnswers, requestTraffic, type Answers, type Report, type Traffic } from "./victim.ts";
import { loginTraffic, type VictimPerson } from "./victim-logins.ts";
import { nodeTraffic } from "./victim-nodes.ts";

const ROLE = "victim";

type Start = { url: string; world: Omit<World, "call">; person: VictimPerson; seed: number; pauseMs: number };

export class VictimProcess {
  readonly #child: ChildProcess = fork(import.meta.filename, [ROLE], { stdio: ["ignore", "ignore", "inherit", "ipc"] });

  /** Returns how to stop the traffic and get its answers. */
  start({ world, ...start }: Start & { world: World }): () => Promise<Answers> {
    const { key, workspace_id, project_id, tenant_id } = world; // its calls cannot be sent
    this.#child.send({ ...start, world: { key, workspace_id, project_id, tenant_id } } satisfies Start);
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
  const { url, world, person, seed, pauseMs } = start;
  const answers = newAnswers();
  const report: Report = (what, wrong) => {
    if (wrong) answers.wrong.push(what);
  };
  const call: Call = (...args) => send(url, ...args);
  const victim = { ...world, call };
  const shared: Traffic = { answers, report, fresh, end, pauseMs };
  const parts = [
    requestTraffic(victim, seeded(seed), shared),
    nodeTraffic(url, victim, shared),
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
