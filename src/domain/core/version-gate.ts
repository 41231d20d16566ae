// Mixed versions during an upgrade: several processes share a PostgreSQL database, and one of an earlier release does
// not know a restriction that a later one stores, so it would admit what is forbidden. Until every earlier process is
// gone, storing such a restriction is refused; everything else works. An earlier release cannot start once the database
// is migrated, so the gate opens once and stays open.
import { fail } from "../../kernel/errors.ts";
import { VERSION } from "../../platform/version.ts";
import type { Store } from "../../store/store.ts";
import type { Services } from "./context.ts";

/** The first release of a minor version. */
type Release = `${number}.${number}.0`;

const READ_EVERY_MS = 1_000;

export class VersionGate<F extends string> {
  readonly #features: Readonly<Record<F, Release>>;
  readonly #lastReads = new WeakMap<Store, { at: number; versions: Promise<string[]> }>();

  /** Features that narrow access, each with the release that brought it. */
  constructor(features: Readonly<Record<F, Release>>) {
    this.#features = features;
  }

  /** Call it before storing what narrows access by `feature`. */
  async assertKnownEverywhere({ store, clock }: Pick<Services, "store" | "clock">, feature: F): Promise<void> {
    if (!(await this.isKnownEverywhere({ store, clock }, feature))) throw fail("older_process");
  }

  /** Asserts each feature whose value is truthy. Null if there is none: nothing to wait for. */
  assertUsesKnown(services: Pick<Services, "store" | "clock">, uses: Partial<Record<F, unknown>>) {
    const used = (Object.keys(uses) as F[]).filter((feature) => uses[feature]);
    return used.length === 0 ? null : Promise.all(used.map((each) => this.assertKnownEverywhere(services, each)));
  }

  async isKnownEverywhere({ store, clock }: Pick<Services, "store" | "clock">, feature: F): Promise<boolean> {
    const since = minorOf(this.#features[feature]);
    const versions = await this.#connected(store, clock.now());
    // This version knows its own features, also before the release that is named in the table gets its number.
    return !versions.some((version) => version !== VERSION && isBefore(minorOf(version), since));
  }

  /** Reads the database at most once a second, however many callers there are. */
  #connected(store: Store, now: number): Promise<string[]> {
    const last = this.#lastReads.get(store);
    if (last && now - last.at < READ_EVERY_MS) return last.versions;
    const versions = store.connectedVersions();
    versions.catch(() => this.#lastReads.delete(store));
    this.#lastReads.set(store, { at: now, versions });
    return versions;
  }
}

/** The one table of such features: a feature that narrows access adds its line. */
export const versionGate = new VersionGate({
  "address lists": "0.2.0",
  "deferred revocation": "0.2.0",
  "disabled keys": "0.2.0",
  "key lifetimes": "0.2.0",
  "key prefixes": "0.2.0",
  plans: "0.2.0",
  quotas: "0.2.0",
  "restricted secret keys": "0.2.0",
  "suspended tenants": "0.2.0",
});

/** A name that is no version counts as the oldest: what it understands is not known. */
const minorOf = (version: string): string => /^\d+\.\d+/.exec(version)?.[0] ?? "0.0";

const isBefore = (a: string, b: string): boolean => a.localeCompare(b, "en", { numeric: true }) < 0;
