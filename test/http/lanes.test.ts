// The lane contract: an instance with the fast lane and one that serves through h3 alone, on equal data, give the same
// responses to the same bytes: status line, headers, their order, and body.
import { once } from "node:events";
import { Server } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { endpoints } from "../../src/api/index.ts";
import { Routes } from "../../src/http/fast/routes.ts";
import { sendRaw } from "../../harness/processes/raw-http.ts";
import { neverOverloaded } from "../../harness/instances/local-instance.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { START, testClock } from "../../harness/instances/services.ts";
import { firstDifference } from "../../harness/texts.ts";
import { coldCases, faultCases, hotCases, http, refusalCases, type Case, type World } from "./lane-cases.ts";
import { protocolCases } from "./lane-protocol.ts";

const LANES = ["on", "off"] as const;
const worlds = {} as Record<(typeof LANES)[number], World>;

async function makeWorld(lane: (typeof LANES)[number]): Promise<World> {
  const flags = { fast_lane: lane, throttle: "on", ingest_events_per_minute: "20" };
  const overload = { now: neverOverloaded };
  const overloadClock = (): number => overload.now();
  const instance = await testInstance("sqlite", { flags, clock: testClock(START), overloadClock });
  return fresh({ instance, overload });
}

async function fresh({ instance, overload }: Pick<World, "instance" | "overload">): Promise<World> {
  const workspace = await instance.workspace();
  await workspace.call("sk_owner", "PATCH /v1/workspace", { embed_origins: ["https://app.example.com"] });
  const { id } = await workspace.mint();
  return { instance, workspace, keyId: id, overload };
}

beforeAll(async () => {
  for (const lane of LANES) worlds[lane] = await makeWorld(lane);
});
afterAll(async () => {
  for (const lane of LANES) await worlds[lane].instance[Symbol.asyncDispose]();
});

const RANDOM = new RegExp(
  [
    String.raw`\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b`, // ids
    String.raw`\bkr_live_[\w-]+`, // API keys and their prefixes
    String.raw`(?<="(?:lock_token|next_cursor)":")[\w-]+`,
    String.raw`(?<="slug":")w-[\d-]+`,
    String.raw`(?<="(?:x|kid)":")[\w-]+`, // public keys of embed tokens
    String.raw`(?<=\+)[0-9a-f]{8}\+[\w+/]+=*`, // a verifier key
    String.raw`[\w+/]{43,}=*`, // hashes and signatures
  ].join("|"),
  "gi",
);

/** Numbers what is random in the order in which it appears, so that equal responses have equal texts. */
function normalizer(): (text: string) => string {
  const seen = new Map<string, string>();
  const numbered = (found: string): string => {
    if (!seen.has(found)) seen.set(found, `<${found.length} random characters, ${seen.size}>`);
    return seen.get(found) ?? "";
  };
  return (text) => text.replace(/^Date: .*$/m, "Date: -").replace(RANDOM, numbered);
}

async function run(lane: (typeof LANES)[number], each: Case): Promise<string[]> {
  const { parts, statuses, head, during, before } = each;
  const world = each.fresh ? await fresh(worlds[lane]) : worlds[lane];
  const normalize = normalizer();
  const fault = during?.(world);
  try {
    if (before) await sendRaw(world.instance.url, before(world), { count: 1 });
    const options = { count: statuses.length, head: head ?? false };
    const responses = await sendRaw(world.instance.url, await parts(world), options);
    expect(responses.map(({ status }) => status)).toEqual(statuses);
    return responses.map((response) => normalize(response.head + response.body));
  } finally {
    fault?.mockRestore();
  }
}

for (const [group, cases] of Object.entries({
  "hot endpoints": hotCases,
  "cold endpoints": coldCases,
  refusals: refusalCases,
  faults: faultCases,
  "the protocol": protocolCases,
})) {
  describe(`both lanes respond alike: ${group}`, () => {
    for (const each of cases) {
      it(each.name, async () => {
        const [fast, slow] = [await run("on", each), await run("off", each)];
        expect(fast.length).toBe(slow.length);
        for (const [i, response] of fast.entries()) expect(firstDifference(response, slow[i] ?? "")).toBeNull();
      });
    }
  });
}

describe("hot endpoints", () => {
  const hot = endpoints.filter((endpoint) => endpoint.hot !== undefined);

  it("are at most 12: each is code that must behave the same in two lanes", () => {
    expect(hot.length).toBeGreaterThan(0);
    expect(hot.length).toBeLessThanOrEqual(12);
  });

  it("each have a case that succeeds", async () => {
    const sent = await Promise.all(hotCases.map(async ({ parts, statuses }) => [statuses[0], await parts(worlds.on)]));
    for (const { method, path, name } of hot) {
      const line = new RegExp(`^${method} ${path.replace(/\{\w+\}/, "[0-9a-f-]{36}")}[ ?]`);
      const succeeds = sent.some(([status, text]) => Number(status) < 300 && line.test(String(text)));
      expect(succeeds, name).toBe(true);
    }
  });

  it("are served in front of h3 with the fast lane, and by h3 without it", async () => {
    const find = vi.spyOn(Routes.prototype, "find");
    try {
      for (const each of [hotCases[0], coldCases[0]] as Case[]) await run("off", each);
      expect(find).not.toHaveBeenCalled();
      for (const each of [hotCases[0], coldCases[0]] as Case[]) await run("on", each);
      expect(find.mock.results.map(({ value }) => value !== undefined)).toEqual([true, false]);
    } finally {
      find.mockRestore();
    }
  });
});

for (const lane of LANES) {
  describe(`with the fast lane ${lane}`, () => {
    const waiting = async ({ instance }: World, n: number): Promise<void> => {
      await expect.poll(() => instance.app.services.feed.waiting).toBe(n);
    };
    const connected = async ({ instance }: World) => {
      const socket = connect(Number(new URL(instance.url).port), "127.0.0.1");
      await once(socket, "connect");
      return socket;
    };
    const poll = async (world: World): Promise<string> => {
      const { body } = await world.workspace.call("sk_owner", `GET /v1/projects/${world.workspace.project_id}`);
      const query = `project_id={project}&since=${body.policy_version}&wait_ms=25000`;
      return http(world, `GET /v1/policy/delta?${query}`);
    };

    it("a long poll ends when its client disconnects", async () => {
      const world = worlds[lane];
      const socket = await connected(world);
      socket.write(await poll(world));
      await waiting(world, 1);
      socket.destroy();
      await waiting(world, 0);
      expect(world.instance.app.services.feed.waiting).toBe(0);
    });

    it("stopping responds to long polls and ends idle and silent connections at once", async () => {
      const world = await makeWorld(lane); // stopped here
      await using _ = world.instance;
      const [silent, idle, busy] = [await connected(world), await connected(world), await connected(world)];
      idle.write(http(world, "GET /healthz"));
      await once(idle, "data");
      busy.write(await poll(world));
      await waiting(world, 1);
      const closed = [silent, idle, busy].map((socket) => once(socket.resume(), "close"));
      const response = once(busy, "data");
      const forced = vi.spyOn(Server.prototype, "closeAllConnections");
      await world.instance.stop();
      expect(String((await response)[0])).toMatch(/^HTTP\/1.1 304 /);
      await Promise.all(closed);
      expect(forced).not.toHaveBeenCalled();
    });
  });
}
