// Races: two concurrent requests must have the effect of some sequential order. On PostgreSQL they go to two instances;
// on SQLite there is only one.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { rounds, type Campaign } from "./campaign.ts";
import { seeded, type Random } from "../harness/random.ts";
import { openRaw, type Raw } from "../harness/databases/raw-sql.ts";
import { startLocalInstance, type LocalInstance } from "../harness/instances/local-instance.ts";
import type { Call, Reply } from "../harness/processes/send.ts";
import { makePerson, makeWorld, must, type Person, type World } from "../harness/instances/world.ts";
import type { Scratch } from "../harness/databases/scratch.ts";

type Stage = {
  /** A call to one of the instances. */
  call: Call;
  bootstrap: string;
  raw: Raw;
  world: World;
  people: [Person, Person];
  random: Random;
  /** A unique name. */
  fresh: () => string;
  expect: (holds: boolean, what: string) => void;
};
type Race = (stage: Stage) => Promise<Reply[]>;

const statuses = (replies: readonly Reply[]): string => replies.map(({ status }) => status).join(" ");
const withStatus = (replies: readonly Reply[], status: number): Reply[] => replies.filter((it) => it.status === status);

/** Starts all requests in the same event-loop turn, in a random order. */
function together(random: Random, calls: (() => Promise<Reply>)[]): Promise<Reply[]> {
  const order = calls.map((start, i) => ({ start, i, at: random.next() })).toSorted((a, b) => a.at - b.at);
  const started = order.map(({ start, i }) => start().then((reply) => ({ i, reply })));
  return Promise.all(started).then((all) => all.toSorted((a, b) => a.i - b.i).map(({ reply }) => reply));
}

const lastOwner: Race = async ({ call, bootstrap, raw, people, random, fresh, expect }) => {
  const made = await must(call(bootstrap, "POST /v1/workspaces", { name: "Owners", slug: fresh() }));
  const { key } = made.secret_key;
  for (const { email, session } of people) {
    const { token } = await must(call(key, "POST /v1/invites", { email, role: "owner" }));
    await must(call(session, "POST /v1/auth/invites/accept", { token }));
  }
  const replies = await together(
    random,
    people.map(({ id }) =>
      random.int(0, 1) === 0
        ? () => call(key, `PATCH /v1/members/${id}`, { role: "admin" })
        : () => call(key, `DELETE /v1/members/${id}`),
    ),
  );
  const owners = await raw.all("select user_id from memberships where workspace_id = $1 and role = 'owner'", [
    made.workspace.id,
  ]);
  expect(owners.length === 1, `${owners.length} owners are left after ${statuses(replies)}`);
  expect(
    withStatus(replies, 200).length === 1 && withStatus(replies, 409).length === 1,
    `answers ${statuses(replies)}`,
  );
  return replies;
};

const sameName: Race = async ({ call, bootstrap, world, random, fresh, expect }) => {
  const name = fresh();
  const want = random.pick<() => Promise<Reply>>([
    () => call(world.key, "POST /v1/projects", { name, slug: name }),
    () => call(world.key, "POST /v1/tenants", { external_id: name }),
    () => call(bootstrap, "POST /v1/workspaces", { name, slug: name }),
  ]);
  const replies = await together(
    random,
    Array.from({ length: 8 }, () => want),
  );
  const [made, refused] = [withStatus(replies, 201).length, withStatus(replies, 409).length];
  expect(made === 1 && refused === 7, `one name, answers ${statuses(replies)}`);
  return replies;
};

const rotateRevoke: Race = async ({ call, raw, world, random, expect }) => {
  const secret = random.int(0, 1) === 0;
  const { project_id, tenant_id, key } = world;
  const [path, noun] = secret ? ["/v1/secret_keys", "secret_key"] : ["/v1/keys", "api_key"];
  const body = secret ? { env: "live" } : { project_id, tenant_id, env: "live" };
  const { id } = await must(call(key, `POST ${path}`, body));
  const rotate = (): Promise<Reply> => call(key, `POST ${path}/${id}/rotate`, { overlap_hours: 1 });
  const revoke = (): Promise<Reply> => call(key, `POST ${path}/${id}/revoke`, {});
  const replies = await together(random, [rotate, rotate, revoke, revoke]);
  const rotated = withStatus(replies.slice(0, 2), 200).length;
  expect(withStatus(replies.slice(2), 200).length === 2, `revoking answered ${statuses(replies.slice(2))}`);
  const log = await raw.all(
    "select seq, action from audit_log where workspace_id = $1 and target_id = $2 order by seq",
    [world.workspace_id, id],
  );
  const actions = log.map(({ action }) => String(action)).filter((action) => !action.endsWith(".created"));
  // Rotating twice is allowed, rotating a revoked key is not, and revoking again changes nothing.
  const want = [...Array.from({ length: rotated }, () => `${noun}.rotated`), `${noun}.revoked`];
  expect(actions.join() === want.join(), `the log says ${actions.join()} after ${statuses(replies)}`);
  return replies;
};

const ORIGIN = "https://app.example.com";

/** In the portal a key has one unexpired successor, however often the button is pressed. */
const embedRotate: Race = async ({ call, raw, world, random, expect }) => {
  const { key, project_id, tenant_id } = world;
  const want = { project_id, tenant_id, env: "live" };
  await must(call(key, "PATCH /v1/workspace", { embed_origins: [ORIGIN] }));
  const { id } = await must(call(key, "POST /v1/keys", want));
  const { token } = await must(call(key, "POST /v1/embed_tokens", { ...want, scopes: ["keys:read", "keys:write"] }));
  const options = { headers: { origin: ORIGIN } };
  const rotate = (): Promise<Reply> => call(token, `POST /v1/embed/keys/${id}/rotate`, { overlap_hours: 1 }, options);
  const replies = await together(random, [rotate, rotate, rotate]);
  const made = await raw.all("select id from api_keys where rotated_from = $1", [id]);
  expect(made.length === 1, `${made.length} successors after ${statuses(replies)}`);
  expect(
    withStatus(replies, 200).length === 1 && withStatus(replies, 409).length === 2,
    `answers ${statuses(replies)}`,
  );
  return replies;
};

const acceptTwice: Race = async ({ call, bootstrap, raw, people, random, fresh, expect }) => {
  const made = await must(call(bootstrap, "POST /v1/workspaces", { name: "Guests", slug: fresh() }));
  const [guest] = people;
  const invite = await must(call(made.secret_key.key, "POST /v1/invites", { email: guest.email, role: "member" }));
  const accept = (): Promise<Reply> => call(guest.session, "POST /v1/auth/invites/accept", { token: invite.token });
  const revoke = (): Promise<Reply> => call(made.secret_key.key, `POST /v1/invites/${invite.id}/revoke`, {});
  const replies = await together(random, [accept, accept, ...(random.int(0, 2) === 0 ? [revoke] : [])]);
  const id = made.workspace.id as string;
  const members = await raw.all("select user_id from memberships where workspace_id = $1", [id]);
  const joined = await raw.all(
    "select seq from audit_log where workspace_id = $1 and action = 'workspace_member.joined'",
    [id],
  );
  const accepted = withStatus(replies.slice(0, 2), 200).length;
  expect(members.length === Math.min(1, accepted), `${members.length} members after ${statuses(replies)}`);
  expect(joined.length === members.length, `${joined.length} rows for ${members.length} members`);
  const revoked = replies[2]?.status === 200;
  expect(revoked ? accepted === 0 : accepted === 1, `accepted ${accepted} times: ${statuses(replies)}`);
  return replies;
};

const deleteCreate: Race = async ({ call, raw, world, random, fresh, expect }) => {
  const { key, project_id } = world;
  const tenant = await must(call(key, "POST /v1/tenants", { external_id: fresh() }));
  const create = (): Promise<Reply> => call(key, "POST /v1/keys", { project_id, tenant_id: tenant.id, env: "live" });
  const remove = (): Promise<Reply> => call(key, `DELETE /v1/tenants/${tenant.id}`);
  const replies = await together(random, [create, create, create, remove]);
  const live = await raw.all("select id from api_keys where tenant_id = $1 and revoked_at is null", [tenant.id]);
  expect(live.length === 0, `${live.length} live keys of a tenant that is gone, after ${statuses(replies)}`);
  expect(replies[3]?.status === 200, `deleting answered ${replies[3]?.status}`);
  expect(
    replies.slice(0, 3).every(({ status }) => status === 201 || status === 404),
    `creating answered ${statuses(replies.slice(0, 3))}`,
  );
  return replies;
};

const RACES: Record<string, Race> = {
  "last owner": lastOwner,
  "same name": sameName,
  "rotate and revoke": rotateRevoke,
  "rotate in the browser": embedRotate,
  "accept twice": acceptTwice,
  "delete and create": deleteCreate,
};

/** One instance on SQLite, two on PostgreSQL. */
async function openRigs({ target, dir }: Scratch): Promise<LocalInstance[]> {
  const public_url = "https://keys.example.com"; // both instances issue tokens for one name
  const first = await startLocalInstance({ target, dir, flags: { public_url } });
  if (target.kind === "sqlite") return [first];
  const beside = join(dir, "beside");
  mkdirSync(beside);
  const flags = { public_url, master_key_file: join(dir, "master.key"), mail_url: `file:${join(dir, "mail")}` };
  return [first, await startLocalInstance({ target, dir: beside, flags })];
}

export const races: Campaign = {
  name: "races",
  promise: "P2, P3",
  claim: "Two conflicting requests at once have the effect of some sequential order.",
  rounds: 10_000,
  round: "all six races",
  backends: ["sqlite", "postgres"],
  async run(options, tally) {
    const { scratch } = options;
    const rigs = await openRigs(scratch);
    const raw = await openRaw(scratch.target);
    try {
      let turn = 0;
      const call: Call = (...args) => (rigs[turn++ % rigs.length] as LocalInstance).call(...args);
      const bootstrap = rigs[0]?.app.bootstrap.token as string;
      const world = await makeWorld(call, bootstrap, "races");
      const people = [0, 1].map((i) => makePerson(rigs[0]?.call as Call, scratch.dir, `person${i}@example.com`));
      const stage = { call, bootstrap, raw, world, people: (await Promise.all(people)) as [Person, Person] };
      for (const seed of rounds(options, tally)) {
        let names = 0;
        const random = seeded(seed);
        for (const [name, race] of Object.entries(RACES)) {
          const expect = (holds: boolean, what: string): void => {
            if (!holds) tally.failed(seed, `${name}: ${what}`);
          };
          const fresh = (): string => `r${seed}-${names++}`;
          const replies = await race({ ...stage, random, fresh, expect });
          for (const { status, text } of replies) expect(status < 500, `${status} ${text}`);
          tally.count("requests", replies.length);
        }
        if (seed % 100 === 0) options.print(`seed ${seed}`);
      }
      const chain = await must(call(world.key, "GET /v1/audit_logs/chain"));
      if (!chain.verified) tally.failed(options.seed, `the chain breaks at ${chain.broken_seq}: ${chain.reason}`);
    } finally {
      await raw.close();
      for (const rig of rigs.toReversed()) await rig.app.stop();
    }
  },
};
