// Searches with random combinations of filters find exactly the keys that a plain comparison finds.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import type { Reply } from "../../../harness/processes/send.ts";
import { seeded, type Random } from "../../../harness/random.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

const SEED = 11;
const KEYS = 30;
const SEARCHES = 60;
const WORDS = ["acme", "acme mobile", "mobile", "billing", "bill"];
const STATES = ["active", "expiring", "expired", "disabled", "revoked"] as const;

type Tenant = { id: string; external_id: string; name: string; suspended: boolean };
type Shown = {
  id: string;
  name: string;
  display_prefix: string;
  scopes: string[];
  expires_at: string | null;
  tenant_id: string;
  project_id: string;
  env: string;
};
type Key = Shown & { tenant: Tenant; ended: "disabled" | "revoked" | null };
type World = { workspace: Workspace; tenants: Tenant[]; projects: string[]; keys: Key[] };
type Filters = Record<string, string>;

const wordsOf = (text: string): string[] => text.toLowerCase().split(/[^a-z0-9]+/);

/** What `GET /v1/keys` documents of each filter. */
function matches(key: Key, filters: Filters, now: number): boolean {
  const { q = "", state, scope, include_revoked, ...equal } = filters;
  const { tenant, ended, expires_at } = key;
  const start = key.display_prefix.replace(/^kr_(live|test)_/, "");
  const words = [key.name, start, tenant.external_id, tenant.name].flatMap(wordsOf);
  const expiry = expires_at === null ? Infinity : Date.parse(expires_at);
  const isActive = ended === null && expiry > now && !tenant.suspended;
  const inState = {
    active: isActive,
    expiring: isActive && expiry <= now + 7 * DAY_MS,
    expired: ended !== "revoked" && expiry <= now,
    disabled: ended === "disabled",
    revoked: ended === "revoked",
    none: include_revoked === "true" || ended !== "revoked",
  }[state ?? "none"];
  return (
    inState === true &&
    Object.entries(equal).every(([field, value]) => key[field as keyof Shown] === value) &&
    (scope === undefined || key.scopes.includes(scope)) &&
    wordsOf(q).every((word) => words.some((candidate) => candidate.startsWith(word)))
  );
}

function randomFilters({ next, pick }: Random, { tenants, projects }: World): Filters {
  const filters: Filters = {};
  const sometimes = (name: string, value: () => string): void => void (next() < 0.4 && (filters[name] = value()));
  if (next() < 0.7) filters["q"] = pick(["acme", "mob", "bill acme", "billing", "mobile b", "one"]);
  sometimes("tenant_id", () => pick(tenants).id);
  sometimes("project_id", () => pick(projects));
  sometimes("env", () => pick(["live", "test"]));
  sometimes("scope", () => pick(["read", "write"]));
  sometimes("state", () => pick(STATES));
  if (!filters["state"]) sometimes("include_revoked", () => "true");
  if (!filters["q"] && !filters["state"]) filters["scope"] ??= "read"; // otherwise it is a plain list
  return filters;
}

for (const backend of runBackends) {
  describe(`filters of a search on ${backend}`, () => {
    const instance = sharedInstance(backend, { leads: false });

    const makeWorld = async (random: Random): Promise<World> => {
      const workspace = await instance.workspace();
      const make = async (route: string, body: object) => (await workspace.call("sk_owner", route, body)).body;
      const tenants: Tenant[] = [];
      for (const [n, external_id] of ["acme-one", "acme-two", "mobile-one", "other"].entries()) {
        const name = random.pick(WORDS);
        const { id } = await make("POST /v1/tenants", { external_id, name });
        tenants.push({ id, external_id, name, suspended: n === 1 });
      }
      const { id: other } = await make("POST /v1/projects", { name: "Other", slug: "other" });
      const world: World = { workspace, tenants, projects: [workspace.project_id, other], keys: [] };
      for (let n = 0; n < KEYS; n++) {
        instance.clock.advance(1);
        const tenant = random.pick(tenants);
        const days = random.pick([null, null, 1, 3, 30]);
        const key = await workspace.mint({
          tenant_id: tenant.id,
          project_id: random.pick(world.projects),
          env: random.pick(["live", "live", "test"]),
          name: random.pick(WORDS),
          scopes: random.pick([[], ["read"], ["read", "write"]]),
          expires_at: days && new Date(instance.clock.now() + days * DAY_MS).toISOString(),
        });
        const ended = random.pick([null, null, null, "disabled", "revoked"] as const);
        if (ended) await make(`POST /v1/keys/${key.id}/${ended === "revoked" ? "revoke" : "disable"}`, {});
        world.keys.push({ ...(key as unknown as Shown), tenant, ended });
      }
      await make(`POST /v1/tenants/${tenants[1]?.id}/suspend`, {});
      instance.clock.advance(2 * DAY_MS);
      return world;
    };

    const idsOf = async ({ workspace }: World, filters: Filters, limit: number): Promise<string[]> => {
      const ids: string[] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const query = new URLSearchParams({ ...filters, limit: String(limit), ...(cursor && { cursor }) });
        const { body, text }: Reply = await workspace.call("sk_owner", `GET /v1/keys?${query.toString()}`);
        expect(body.data, text).toBeDefined();
        ids.push(...body.data.map(({ id }: Shown) => id));
        cursor = body.next_cursor;
      }
      return ids;
    };

    it("find what matches all of them, each key once, on pages of any size", async () => {
      const random = seeded(SEED);
      const world = await makeWorld(random);
      const now = instance.clock.now();
      let found = 0;
      for (let n = 0; n < SEARCHES; n++) {
        const filters = randomFilters(random, world);
        const expected = world.keys.filter((key) => matches(key, filters, now)).map(({ id }) => id);
        const ids = await idsOf(world, filters, random.pick([1, 3, 50]));
        expect(ids.toSorted(), `seed ${SEED}, search ${n}: ${JSON.stringify(filters)}`).toEqual(expected.toSorted());
        found += ids.length;
      }
      expect(found).toBeGreaterThan(SEARCHES);
    });
  });
}
