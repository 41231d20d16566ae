// Polls in one process, changes in another, on one PostgreSQL, to which a connection is dead but open: a poll sees each
// change that was acknowledged before it came.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { throughProxy } from "../../../harness/databases/commit-proxy.ts";
import { changingProject } from "../../../harness/instances/policy-feed.ts";
import { testServices } from "../../../harness/instances/test-services.ts";
import { NEVER_DISCONNECTS } from "../../../src/domain/core/subscription.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

describe.runIf(backends.includes("postgres"))("polls of another process", () => {
  it("are woken by a change although the listening connection is dead, which is then replaced", async () => {
    await using fixture = await testServices("postgres");
    await using far = await throughProxy(fixture);
    const { proxy, other } = far;
    const p = await changingProject(fixture);
    const { feed, store } = other.services;
    const resync = new Promise((resolve) => store.onNotice("resync", resolve));
    const subscription = feed.subscribe(p.owner, { project_id: p.project_id, version: 1 }, HOUR_MS, NEVER_DISCONNECTS)!;
    proxy.swallowListeners();
    await p.change();
    expect(await subscription.changed()).toMatchObject({ version: 2 });
    expect(feed.noticesMissed).toBe(1);
    await resync;
    const changes = new Promise((resolve) => store.onPolicyChange(resolve));
    await p.change();
    expect(await changes).toEqual([{ project_id: p.project_id, version: 3 }]);
    subscription.close();
    feed.stop();
  });

  it("is answered once the listening connection is found dead", async () => {
    await using fixture = await testServices("postgres");
    await using far = await throughProxy(fixture);
    const { proxy, other } = far;
    const p = await changingProject(fixture);
    const { feed } = other.services;
    expect(await feed.head(p.workspace_id, p.project_id)).toMatchObject({ version: 1 });
    proxy.swallowAll();
    await p.change();
    const polls = Array.from({ length: 20 }, async () => feed.head(p.workspace_id, p.project_id));
    expect((await Promise.all(polls)).map(({ version }) => version)).toEqual(polls.map(() => 2));
  });
});
