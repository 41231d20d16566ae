// The traffic of victims in a process of its own: in the attackers' process, its times would be those of their event loop.
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Call } from "../../harness/instances/local-instance.ts";
import type { World } from "../../harness/instances/world.ts";
import { seeded } from "../../harness/random.ts";
import { victimTraffic, type Answers } from "./victim.ts";

const ROLE = "victim";

type Start = { url: string; world: Omit<World, "call">; seed: number };

export class VictimProcess {
  readonly #child: ChildProcess = fork(import.meta.filename, [ROLE], { stdio: ["ignore", "ignore", "inherit", "ipc"] });

  /** Returns how to stop the traffic and get its answers. */
  start({ url, world, seed }: Start & { world: World }): () => Promise<Answers> {
    const { key, workspace_id, project_id, tenant_id } = world; // its calls cannot be sent
    this.#child.send({ url, world: { key, workspace_id, project_id, tenant_id }, seed } satisfies Start);
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

/** As the calls of the harness, without loading a server for them. */
function callsTo(url: string): Call {
  return async (bearer, route, body) => {
    const [method = "", path = ""] = route.split(" ");
    const headers = {
      authorization: `Bearer ${bearer}`,
      ...(body !== undefined && { "content-type": "application/json" }),
    };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(url + path, { method, headers, ...sent });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === "" ? null : JSON.parse(text), text };
  };
}

if (process.argv[2] === ROLE && process.send) {
  let end: AbortController | undefined;
  let made = 0;
  process.on("disconnect", () => process.exit(0));
  process.on("message", (message: Start | "stop") => {
    if (message === "stop") return end?.abort();
    const { url, world, seed } = message;
    end = new AbortController();
    const fresh = (): string => `v${seed}-${++made}`;
    const traffic = victimTraffic({ ...world, call: callsTo(url) }, seeded(seed), fresh, end.signal);
    void traffic.then((answers) => process.send?.(answers));
  });
}
