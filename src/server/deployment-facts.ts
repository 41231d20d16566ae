// Values that all processes on one database share, by name: the master key's fingerprint, the bootstrap token's hash.
import { claimFact, readFact, writeFact, type Fact } from "../store/queries/deployment.ts";
import type { Store } from "../store/store.ts";

export async function getFact(store: Store, name: Fact): Promise<string | undefined> {
  return (await readFact.first(store.read, { name }))?.value;
}

export async function setFact(store: Store, name: Fact, value: string): Promise<void> {
  await store.write({
    chains: [],
    work: async (tx) => ({ value: await writeFact.run(tx, { name, value }), entries: [] }),
  });
}

/** Sets a value unless there is one, and returns the one in force: another process may have been first. */
export async function claimFactOnce(store: Store, name: Fact, value: string): Promise<string> {
  const known = await getFact(store, name);
  if (known !== undefined) return known;
  await store.write({
    chains: [],
    work: async (tx) => ({ value: await claimFact.run(tx, { name, value }), entries: [] }),
  });
  return (await getFact(store, name)) ?? value;
}
