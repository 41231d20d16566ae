// Bounds the number of groups in the usage series: outcomes, routes, tags and keys. The first names of a day count;
// what comes after them is added to a group of its own, so that no request is lost. Every bound is of one environment,
// so that test traffic cannot take the names of live; of those of a workspace, test has a quarter.
import { ABOVE_CAP } from "../../kernel/usage/groups.ts";
import { DENIALS } from "../../kernel/denials.ts";
import { DAY_MS, HOUR_MS } from "../../kernel/durations.ts";
import { copySums } from "../../kernel/usage/sums.ts";
import { saveSeenNames, seenNames } from "../../store/queries/series.ts";
import type { UsageGroup } from "../../store/schema/tables.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { Services } from "../core/context.ts";
import { addMinute, type HourPart } from "./groups.ts";
import type { OverflowKind } from "./counts.ts";

/** Maximum per workspace and day, besides those that are always named. */
const OUTCOMES_MAX = 39;
/** Maximum per project, environment and day. */
const TAG_NAMES_MAX = 8;
/** Maximum per tag, project, environment and day. */
const TAG_VALUES_MAX = 100;
/** Values of a tag by route. Above it a value is counted, but not by route. */
const TAG_ROUTES_MAX = 1_000;
/** Outcomes that need no room, so that no invented reason displaces them: the library's own denials. */
const ALWAYS_NAMED: ReadonlySet<string> = new Set(["allowed", "other", ...DENIALS]);

type Seen = { workspace_id: string; scope: string; start: number; names: Set<string>; isChanged: boolean };
type Cap = Pick<Seen, "workspace_id" | "scope" | "start"> & { max: number };

/** What the environment has of a workspace's bound. */
function shareOf({ env }: UsageGroup, max: number): number {
  return env === "test" ? Math.floor(max / 4) : max;
}

export class Caps {
  readonly #services: Services;
  readonly #tx: Tx;
  readonly #seen = new Map<string, Seen>();

  constructor(services: Services, tx: Tx) {
    this.#services = services;
    this.#tx = tx;
  }

  /** The part with the outcomes and the name that it counts under. */
  async apply({ group, hour, outcomes }: HourPart): Promise<HourPart> {
    const start = Math.floor(hour / 24) * DAY_MS;
    const part: HourPart = { group: await this.#groupOf(group, start), hour, outcomes: new Map() };
    const cap = {
      workspace_id: group.workspace_id,
      scope: `outcome ${group.env}`,
      start,
      max: shareOf(group, OUTCOMES_MAX),
    };
    for (const [outcome, minutes] of outcomes) {
      const isNamed = ALWAYS_NAMED.has(outcome) || (await this.#admit(cap, outcome, "outcome"));
      // Copies: a transaction that is repeated applies the caps again.
      for (const [minute, sums] of minutes) addMinute(part, isNamed ? outcome : "other", minute, copySums(sums));
    }
    return part;
  }

  async #groupOf(group: UsageGroup, start: number): Promise<UsageGroup> {
    const { workspace_id, kind, project_id, env, tenant, name } = group;
    const { series_routes } = this.#services.settings;
    const cap = (scope: string, max: number): Cap => ({ workspace_id, scope, start, max });
    const routes = cap(`route ${project_id} ${env}`, series_routes);
    if (kind === "route" && name !== "") {
      const isNamed = await this.#admit(routes, name, "route");
      return isNamed ? group : { ...group, name: ABOVE_CAP };
    }
    if (!kind.startsWith("tag:")) return group;
    if (!(await this.#admit(cap(`tag ${project_id} ${env}`, TAG_NAMES_MAX), kind, "tag")))
      return { ...group, kind: `tag:${ABOVE_CAP}`, tenant: ABOVE_CAP, name: ABOVE_CAP };
    if (!(await this.#admit(cap(`${kind} ${project_id} ${env}`, TAG_VALUES_MAX), name, "tag")))
      return { ...group, tenant: ABOVE_CAP, name: ABOVE_CAP };
    // Otherwise a route above its cap would have tags, but no requests.
    if (tenant !== "" && !(await this.#admit(routes, tenant, "route"))) return { ...group, tenant: ABOVE_CAP };
    const byRoute = cap(`${kind} ${project_id} ${env} route`, TAG_ROUTES_MAX);
    return (await this.#admit(byRoute, `${name}\n${tenant}`, "tag")) ? group : { ...group, tenant: ABOVE_CAP };
  }

  /** Whether a further key of this hour gets details. Only their number is stored. */
  async admitKey(group: UsageGroup, hour: number): Promise<boolean> {
    const { workspace_id, env } = group;
    const seen = await this.#load({ workspace_id, scope: `keys ${env}`, start: hour * HOUR_MS });
    const count = Number([...seen.names][0] ?? 0);
    if (count >= shareOf(group, this.#services.counts.series.keysMax)) {
      this.#services.counts.series.overflow.key++;
      return false;
    }
    seen.names.clear();
    seen.names.add(String(count + 1));
    seen.isChanged = true;
    return true;
  }

  async #admit({ max, ...cap }: Cap, name: string, kind: OverflowKind): Promise<boolean> {
    const seen = await this.#load(cap);
    if (seen.names.has(name)) return true;
    if (seen.names.size >= max) {
      this.#services.counts.series.overflow[kind]++;
      return false;
    }
    seen.names.add(name);
    seen.isChanged = true;
    return true;
  }

  async #load({ workspace_id, scope, start }: Omit<Cap, "max">): Promise<Seen> {
    const id = `${workspace_id} ${start} ${scope}`;
    let seen = this.#seen.get(id);
    if (!seen) {
      const row = await seenNames.first(this.#tx, { workspace_id, scope, start });
      const names = new Set(row ? (JSON.parse(row.names) as string[]) : []);
      this.#seen.set(id, (seen = { workspace_id, scope, start, names, isChanged: false }));
    }
    return seen;
  }

  async save(): Promise<void> {
    for (const { workspace_id, scope, start, names, isChanged } of this.#seen.values())
      if (isChanged)
        await saveSeenNames.run(this.#tx, { workspace_id, scope, start, names: JSON.stringify([...names]) });
  }
}
