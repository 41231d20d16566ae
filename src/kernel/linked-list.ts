// Items in the order in which they were appended, each removed through its node. For items that come and go with every
// request, where a Set or Map would cost garbage collection: docs/design/0020-short-lived-items.md.

export type ListNode<T> = { readonly item: T; before: ListNode<T> | undefined; after: ListNode<T> | undefined };

export class LinkedList<T> {
  #first: ListNode<T> | undefined;
  #last: ListNode<T> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get first(): T | undefined {
    return this.#first?.item;
  }

  append(item: T): ListNode<T> {
    const node: ListNode<T> = { item, before: this.#last, after: undefined };
    if (this.#last) this.#last.after = node;
    else this.#first = node;
    this.#last = node;
    this.#size++;
    return node;
  }

  /** Returns false if it was removed before. Clears its links: a removed node must not keep later ones alive. */
  remove(node: ListNode<T>): boolean {
    const { before, after } = node;
    if (!before && node !== this.#first) return false;
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    else this.#last = before;
    node.before = node.after = undefined;
    this.#size--;
    return true;
  }

  /** While iterating, only the current node may be removed. */
  *nodes(): Generator<ListNode<T>, void> {
    for (let node = this.#first; node; ) {
      const { after }: ListNode<T> = node;
      yield node;
      node = after;
    }
  }

  *[Symbol.iterator](): Generator<T, void> {
    for (const { item } of this.nodes()) yield item;
  }
}
