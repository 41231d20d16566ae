// Records in the deployment's audit chain that an instance started with other settings than before. Of values only
// keyed hashes are stored: a short secret could be guessed from a plain one.
import { createHmac } from "node:crypto";
import { settingNames, type SettingName } from "../config/settings.ts";
import { SYSTEM } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { mutate, unchanged } from "../domain/core/mutate.ts";
import { NIL_WORKSPACE } from "../kernel/audit/chain.ts";
import type { Tx } from "../store/engine/tx.ts";
import { writeFact } from "../store/queries/deployment.ts";
import { getJsonFact } from "../domain/core/facts.ts";

const FACT = "settings";
/** Settings of one process: they differ between the processes of a deployment. */
const PLACES: readonly SettingName[] = ["data_dir", "host", "port"];
/**
 * How many configurations of earlier starts do not count as a change. One process owns a SQLite database. Processes on
 * one PostgreSQL may differ, and each restart of one would look like a change of all.
 */
const KNOWN_MAX = { sqlite: 1, postgres: 8 } as const;
const HASH_CHARS = 16;

/** Hashes by name. */
type Configuration = Record<string, string>;

function configurationOf({ settings, vault }: Services): Configuration {
  const key = vault.derive("settings");
  const names = settingNames.filter((name) => !PLACES.includes(name));
  const hashOf = (name: SettingName): string =>
    createHmac("sha256", key)
      .update(`${name}=${JSON.stringify(settings[name])}`)
      .digest("hex")
      .slice(0, HASH_CHARS);
  return Object.fromEntries(names.map((name) => [name, hashOf(name)]));
}

/** A setting that only one of the two releases has does not count as changed. */
function changedNames(before: Configuration, after: Configuration): string[] {
  return Object.keys(after).filter((name) => name in before && before[name] !== after[name]);
}

async function readKnown(tx: Tx): Promise<Configuration[]> {
  return (await getJsonFact<Configuration[]>(tx, FACT)) ?? [];
}

export async function recordSettings(services: Services): Promise<void> {
  const { store } = services;
  if (store.readOnly) return;
  const current = configurationOf(services);
  const isCurrent = (each: Configuration): boolean => changedNames(each, current).length === 0;
  const addCurrent = async (tx: Tx, known: Configuration[]): Promise<void> => {
    const kept = [current, ...known.filter((each) => !isCurrent(each))].slice(0, KNOWN_MAX[store.dialect]);
    const value = JSON.stringify(kept);
    if (value !== JSON.stringify(known)) await writeFact.run(tx, { name: FACT, value });
  };
  // Both lock the chain: of processes that start together, none may overwrite another's configuration.
  const isKnown = await store.write({
    chains: [NIL_WORKSPACE],
    work: async (tx) => {
      const known = await readKnown(tx);
      const value = known.length === 0 || known.some(isCurrent);
      if (value) await addCurrent(tx, known);
      return { value, entries: [] };
    },
  });
  if (isKnown) return;
  await mutate({ services, actor: SYSTEM }, { workspace_id: null }, async (tx) => {
    const known = await readKnown(tx);
    if (known.some(isCurrent)) return unchanged(null); // another process has just started with the same settings
    await addCurrent(tx, known);
    const changed = changedNames(known[0] ?? {}, current);
    return { value: null, events: [{ action: "config.changed", target_id: null, payload: { changed } }] };
  });
}
