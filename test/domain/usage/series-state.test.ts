// Readers of usage series: whatever one account reads, another gets its turn.
import { describe, expect, it } from "vitest";
import { SeriesState } from "../../../src/domain/usage/series-state.ts";
import { cellOwner, type Owner } from "../../../src/fairness/owners.ts";

/** Reads that run until they are finished by name, in the order in which they started. */
function readsOf(state: SeriesState) {
  const started: string[] = [];
  const finish = new Map<string, () => void>();
  const read = (owner: Owner, name: string): Promise<string> => {
    const reading = state.read<string>(owner, () => {
      started.push(name);
      return new Promise((resolve) => finish.set(name, () => resolve(name)));
    });
    reading.catch(() => {}); // one that still waits at the end of a test is refused later
    return reading;
  };
  const end = async (name: string, reading: Promise<string>): Promise<void> => {
    finish.get(name)?.();
    await reading;
  };
  return { started, read, end };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("readers of usage series", () => {
  it("of one account, in however many workspaces, leave room for another account", async () => {
    const { started, read } = readsOf(new SeriesState());
    for (let i = 0; i < 25; i++)
      for (const part of ["a", "b"]) void read(cellOwner(`flood-${i}`, "live", "flood"), `${i}${part}`);
    void read(cellOwner("quiet", "live"), "quiet");
    await turn();
    expect(started).toEqual(["0a", "0b", "1a", "1b", "quiet"]);
  });

  it("of a test key leave room for live", async () => {
    const { started, read } = readsOf(new SeriesState());
    for (let i = 0; i < 10; i++) void read(cellOwner("one", "test"), `test ${i}`);
    void read(cellOwner("one", "live"), "live");
    await turn();
    expect(started).toEqual(["test 0", "test 1", "live"]);
  });

  it("of two accounts that flood leave room for two others", async () => {
    const { started, read } = readsOf(new SeriesState());
    for (const flood of ["a", "b"])
      for (let i = 0; i < 8; i++) void read(cellOwner(`${flood}${i >> 1}`, "live", flood), `${flood} ${i}`);
    for (const quiet of ["c", "d"]) void read(cellOwner(quiet, "live"), quiet);
    await turn();
    expect(started).toEqual(["a 0", "a 1", "a 2", "a 3", "b 0", "b 1", "c", "d"]);
  });

  it("that wait start before further ones of an account that reads already", async () => {
    const { started, read, end } = readsOf(new SeriesState());
    const accounts = ["a", "b", "c", "d"].map((name) => cellOwner(name, "live"));
    const first = accounts.flatMap((owner) => [read(owner, `${owner.id} 0`), read(owner, `${owner.id} 1`)]);
    for (const owner of accounts) void read(owner, `${owner.id} 2`);
    void read(cellOwner("late", "live"), "late");
    void read(cellOwner("later", "live"), "later");
    await turn();
    expect([started.length, started.at(-1)]).toEqual([8, "late"]);
    await end("a/live 0", first[0] as Promise<string>);
    await turn();
    expect(started.slice(8)).toEqual(["later"]);
  });

  it("fail at once where 32 of their environment wait already", async () => {
    const state = new SeriesState();
    const { started, read } = readsOf(state);
    const owner = cellOwner("flood", "live");
    for (let i = 0; i < 34; i++) void read(owner, `${i}`);
    await expect(read(owner, "refused")).rejects.toMatchObject({ status: 503 });
    void read(cellOwner("quiet", "live"), "quiet");
    await turn();
    expect(started).toEqual(["0", "1", "quiet"]);
  });
});
