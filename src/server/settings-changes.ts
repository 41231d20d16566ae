// Records in the deployment's audit chain that an instance started with other settings than before. Of values only
// hashes are stored, and nothing of settings that are secret.
import { settingsTable, type SettingName, type Settings } from "../config/settings.ts";
import { SYSTEM } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { mutate, unchanged } from "../domain/core/mutate.ts";
import { sha256Hex } from "../platform/crypto.ts";
import type { Tx } from "../store/engine/statement.ts";
import { readFact, writeFact } from "../store/queries/deployment.ts";
import { getFact, setFact } from "./deployment-facts.ts";

const FACT = "settings";
/** Where a process runs: they differ between processes of one deployment. */
const PLACES: readonly SettingName[] = ["data_dir", "host", "port"];
/**
 * How many configurations of earlier starts are no change. One process owns a SQLite database. Processes on one
 * PostgreSQL may differ, and each restart of one would look like a change of all.
 */
const KNOWN_MAX = { sqlite: 1, postgres: 8 } as const;
const HASH_CHARS = 16;

/** Hashes by name. */
type Configuration = Record<string, string>;

function configurationOf(settings: Settings): Configuration {
  const names = (Object.keys(settingsTable) as SettingName[]).filter(
    (name) => !settingsTable[name].secret && !PLACES.includes(name),
  );
  const hashOf = (name: SettingName): string => sha256Hex(JSON.stringify(settings[name])).slice(0, HASH_CHARS);
  return Object.fromEntries(names.map((name) => [name, hashOf(name)]));
}

/** A setting that only one of the releases has is no change. */
function changedNames(before: Configuration, after: Configuration): string[] {
  return Object.keys(after).filter((name) => name in before && before[name] !== after[name]);
}

const parse = (value: string | undefined): Configuration[] => JSON.parse(value ?? "[]") as Configuration[];

export async function recordSettings(services: Services): Promise<void> {
  const { store, settings } = services;
  if (store.readOnly) return;
  const current = configurationOf(settings);
  const isKnown = (known: Configuration[]): boolean => known.some((each) => changedNames(each, current).length === 0);
  const withCurrent = (known: Configuration[]): string => {
    const others = known.filter((each) => changedNames(each, current).length > 0);
    return JSON.stringify([current, ...others].slice(0, KNOWN_MAX[store.dialect]));
  };
  const stored = await getFact(store, FACT);
  const known = parse(stored);
  if (known.length === 0 || isKnown(known)) {
    if (withCurrent(known) !== stored) await setFact(store, FACT, withCurrent(known));
    return;
  }
  await mutate({ services, actor: SYSTEM }, { workspace_id: null }, async (tx: Tx) => {
    // Another process may have started with the same settings meanwhile.
    const now = parse((await readFact.first(tx, { name: FACT }))?.value);
    if (isKnown(now)) return unchanged(null);
    await writeFact.run(tx, { name: FACT, value: withCurrent(now) });
    const changed = changedNames(now[0] ?? {}, current);
    return { value: null, events: [{ action: "config.changed", target_id: null, payload: { changed } }] };
  });
}
