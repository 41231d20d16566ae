// Deletes a project with very many keys beside a neighbour that mints, and kills the server meanwhile: every read says
// revoked from the response on, before and after the crash, and the neighbour's writes do not wait for it.
import { setTimeout as sleep } from "node:timers/promises";
import { openRaw, type Raw } from "../harness/databases/raw-sql.ts";
import { must, type World } from "../harness/instances/world.ts";
import { startServer } from "../harness/processes/server.ts";
import { seeded } from "../harness/random.ts";
import { until } from "../harness/waiting.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { callOf, ENV, worldOn } from "./crash.ts";

const CLIENTS = 4;
const QUIET_MS = 2_000;
const SHORT_MS = 200;
const KILLED_AFTER_MIN_MS = 200;
const KILLED_AFTER_MAX_MS = 2_500;
/** Below this a longer wait is the machine's. */
const WAIT_MS = 50;

/** Copies of one key, made beside the server: minting them would take minutes. Returns the id of one. */
async function addKeys(raw: Raw, sqlite: boolean, { workspace_id }: World, id: string, count: number): Promise<string> {
  const copied = "workspace_id, project_id, tenant_id, env, display_prefix, scopes, meta, created_at, policy_version";
  const number = sqlite ? "printf('%08x', i)" : "lpad(to_hex(i), 8, '0')";
  await raw.all(
    `insert into api_keys (id, lookup_hash, ${copied})
     with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})
     select ${number} || '-0000-7000-8000-' || substr(id, 25), lookup_hash || i, ${copied}
     from api_keys, n where id = $1 and workspace_id = $2`,
    [id, workspace_id],
  );
  return `00000001-0000-7000-8000-${id.slice(24)}`;
}

type MintOptions = {
  end: AbortSignal;
  /** A 503 is a matter of time. */
  timed: boolean;
  failed: (what: string) => void;
};

/** Mints until the end; returns how long each took. A refusal before the end is a failure. */
async function mint({ call, key, ...want }: World, { end, timed, failed }: MintOptions): Promise<number[]> {
  const { project_id, tenant_id } = want;
  const times: number[] = [];
  const client = async (): Promise<void> => {
    while (!end.aborted) {
      const started = performance.now();
      const reply = await call(key, "POST /v1/keys", { project_id, tenant_id, env: "live" }).catch(() => undefined);
      if (reply?.status === 201) times.push(performance.now() - started);
      else if (!end.aborted && (timed || reply?.status !== 503))
        failed(`a mint beside the deletion got ${reply?.status ?? "no response"}`);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return times;
}

const p99 = (times: number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? 0;

async function readKey({ call, key, project_id }: World, id: string): Promise<string> {
  const shown = await must(call(key, `GET /v1/keys/${id}`));
  const working = await must(call(key, `GET /v1/keys?project_id=${project_id}`));
  const snapshot = await must(call(key, `GET /v1/policy/snapshot?project_id=${project_id}`));
  return JSON.stringify([shown.revoked_at, shown.revoked_reason, working.data.length, snapshot.keys.length]);
}

function compare(tally: Tally, seed: number, when: string, expected: string, found: string): void {
  if (found !== expected) tally.failed(seed, `${when}: ${found} instead of ${expected}`);
}

/** Without `timed` no wait is a failure and the kill comes soon: for short runs on a busy machine. */
export function cascadeCampaign({ keys, timed }: { keys: number; timed: boolean }): Campaign {
  return {
    name: "cascade",
    promise: "P8, P9",
    claim:
      "Deleting a project of many keys revokes them at once, also across kill -9, and no other write waits for it.",
    rounds: 20,
    round: "deletion",
    backends: ["sqlite", "postgres"],
    async run(options, tally) {
      const { scratch } = options;
      const sqlite = scratch.target.kind === "sqlite";
      let server = await startServer(scratch.args, ENV);
      const call = callOf(() => server);
      const raw = await openRaw(scratch.target);
      try {
        for (const seed of rounds(options, tally)) {
          const fail = (what: string): void => tally.failed(seed, what);
          const [owner, neighbour] = [
            { ...(await worldOn(server, `owner-${seed}`)), call },
            { ...(await worldOn(server, `neighbour-${seed}`)), call },
          ];
          const { project_id, tenant_id } = owner;
          const first = await must(call(owner.key, "POST /v1/keys", { project_id, tenant_id, env: "live" }));
          const id = await addKeys(raw, sqlite, owner, first.id, keys);
          const shortly = AbortSignal.timeout(timed ? QUIET_MS : SHORT_MS);
          const quiet = p99(await mint(neighbour, { end: shortly, timed, failed: fail }));

          const end = new AbortController();
          const beside = mint(neighbour, { end: end.signal, timed, failed: fail });
          const started = performance.now();
          const deleted = await must(call(owner.key, `DELETE /v1/projects/${project_id}`));
          tally.most("slowest deletion ms", performance.now() - started);
          if (deleted.revoked_keys !== keys + 1) fail(`${deleted.revoked_keys} keys were revoked`);
          const expected = await readKey(owner, id);
          if (!expected.endsWith(',"project deleted",0,0]')) fail(`after the deletion: ${expected}`);
          await sleep(seeded(seed).int(KILLED_AFTER_MIN_MS, timed ? KILLED_AFTER_MAX_MS : 2 * KILLED_AFTER_MIN_MS));
          end.abort();
          await server.end("SIGKILL");
          const longest = Math.max(0, ...(await beside));
          tally.most("quiet p99 ms", quiet);
          tally.most("longest write ms", longest);
          if (timed && longest > Math.max(3 * quiet, WAIT_MS))
            fail(`a write took ${longest} ms, ${quiet} ms (p99) when quiet`);

          server = await startServer(scratch.args, ENV);
          compare(tally, seed, "after kill -9", expected, await readKey(owner, id));
          await until(async () => (await raw.all("select id from cascades")).length === 0);
          compare(tally, seed, "after the last piece", expected, await readKey(owner, id));
          const [left] = await raw.all(
            "select count(*) as n from api_keys where project_id = $1 and revoked_at is null",
            [project_id],
          );
          if (Number(left?.n) !== 0) fail(`${String(left?.n)} rows were left`);
        }
      } finally {
        await raw.close();
        await server.end("SIGTERM");
      }
    },
  };
}

export const cascade = cascadeCampaign({ keys: 100_000, timed: true });
