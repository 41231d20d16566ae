// Facts: named values that all processes on one database share, such as the master key's fingerprint.
import type { Reader } from "../../store/engine/tx.ts";
import { claimFact, readFact, writeFact } from "../../store/queries/deployment.ts";
import type { Fact } from "../../store/schema/tables.ts";
import type { Store } from "../../store/store.ts";
import { record } from "./record.ts";

export async function getFact(on: Reader, name: Fact): Promise<string | undefined> {
  return (await readFact.first(on, { name }))?.value;
}

export async function getJsonFact<T>(on: Reader, name: Fact): Promise<T | null> {
  const value = await getFact(on, name);
  return value === undefined ? null : (JSON.parse(value) as T);
}

export async function setFact(services: { readonly store: Store }, name: Fact, value: string): Promise<void> {
  await record(services, (tx) => writeFact.run(tx, { name, value }));
}

/** Sets a value unless there is one, and returns the one in force: another process may have been first. */
export async function claimFactOnce(
  services: { readonly store: Store },
  name: Fact,
  newValue: () => string,
): Promise<string> {
  const { read } = services.store;
  const known = await getFact(read, name);
  if (known !== undefined) return known;
  const value = newValue();
  await record(services, (tx) => claimFact.run(tx, { name, value }));
  return (await getFact(read, name)) ?? value;
}
