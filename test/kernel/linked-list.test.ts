import { describe, expect, it } from "vitest";
import { LinkedList } from "../../src/kernel/linked-list.ts";
import { seeded } from "../../harness/random.ts";

describe("a linked list", () => {
  it("keeps the order of appending, whichever nodes are removed, and removes each once", () => {
    const random = seeded(3);
    const list = new LinkedList<number>();
    let nodes: ReturnType<typeof list.append>[] = [];
    for (let step = 0; step < 2_000; step++) {
      if (nodes.length === 0 || random.int(0, 2) > 0) nodes.push(list.append(step));
      else {
        const removed = random.pick(nodes);
        expect([list.remove(removed), list.remove(removed)]).toEqual([true, false]);
        expect([removed.before, removed.after]).toEqual([undefined, undefined]);
        nodes = nodes.filter((node) => node !== removed);
      }
      if (step % 100 === 0) expect([...list]).toEqual(nodes.map(({ item }) => item));
    }
    expect([list.size, list.first]).toEqual([nodes.length, nodes[0]?.item]);
  });

  it("lets a loop remove the current node", () => {
    const list = new LinkedList<string>();
    for (const item of ["a", "b", "c"]) list.append(item);
    const seen: string[] = [];
    for (const node of list.nodes()) {
      seen.push(node.item);
      list.remove(node);
    }
    expect([seen, list.size, list.first]).toEqual([["a", "b", "c"], 0, undefined]);
  });
});
