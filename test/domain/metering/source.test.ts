// The source of pushed events: with the id it names an event forever, whatever becomes of the deployment's URL.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RouteInput } from "../../../src/client.ts";
import { createBackup } from "../../../src/backup/create.ts";
import { pushUsage } from "../../../src/domain/metering/push.ts";
import { replayMeter, retryMeter, showMeter } from "../../../src/domain/metering/status.ts";
import { foldJournal } from "../../../src/domain/series/fold.ts";
import { restoreOffline } from "../../../src/server/offline.ts";
import type { RunningInstance } from "../../../src/server/start.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { deployment, setUpWorkspace, type Deployment } from "../../../harness/instances/deployment.ts";
import { rawSql } from "../../../harness/databases/raw-sql.ts";
import { meterReceiver, type MeterReceiver } from "../../../harness/meter-receiver.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";

type Shop = Awaited<ReturnType<typeof setUpWorkspace>>;

const HOUR = 3_600_000;
const [FIRST_URL, SECOND_URL] = ["https://keys.example.com", "https://keys.example.org"];

describe.each(runBackends)("the source of pushed events on %s", (backend) => {
  let receiver: MeterReceiver;
  beforeAll(async () => (receiver = await meterReceiver()));
  afterAll(() => receiver[Symbol.asyncDispose]());
  beforeEach(() => {
    receiver.requests.length = 0;
    receiver.answer = () => ({ status: 204 });
  });
  const push = ({ services }: RunningInstance) => pushUsage(services, { evenIfWaiting: true });
  const sources = () => receiver.requests.flatMap(({ events }) => events.map(({ source, id }) => ({ source, id })));
  const flags = (public_url: string) => ({ meter_url: receiver.url, public_url });

  /** Reports an event of two hours ago, which is due. */
  async function report(d: Deployment, app: RunningInstance, shop: Shop): Promise<void> {
    const { project_id, tenant_id } = shop;
    const ts = new Date(Date.now() - 2 * HOUR).toISOString();
    const batch = telemetryBatch([telemetryEvent({ ts, project_id, tenant_id, request_id: "a" })]);
    const body = batch as RouteInput<"POST /v1/ingest/batch">["body"];
    await shop.client.call("POST /v1/ingest/batch", { body });
    await foldJournal(app.services);
    await rawSql(d.target, "update usage_hours set changed_at = 0");
  }

  it("is the public URL of the first push, also when the setting has changed since", async () => {
    await using d = await deployment(backend);
    let app = await d.start(flags(FIRST_URL));
    const shop = await setUpWorkspace(app, "moved");
    await report(d, app, shop);
    await push(app);
    const [first] = sources();
    expect(first?.source).toBe(`${FIRST_URL}/workspaces/${shop.workspace_id}`);
    await app.stop();
    app = await d.start(flags(SECOND_URL));
    await replayMeter(app.services, 0, Date.now());
    await push(app);
    expect(sources()).toEqual([first, first]);
    // Refused events are listed by the id that the receiver knows.
    receiver.answer = () => ({ status: 400 });
    await replayMeter(app.services, 0, Date.now());
    await push(app);
    expect((await showMeter(app.services)).refused_ids).toEqual([first?.id]);
    receiver.answer = () => ({ status: 204 });
    await retryMeter(app.services);
    await push(app);
    expect(new Set(sources().map(({ source }) => source)).size).toBe(1);
    expect(receiver.total().value).toBe(1);
  });

  it("is the same after a restore of a backup from before the first push", async () => {
    await using d = await deployment(backend);
    let app = await d.start({ public_url: FIRST_URL });
    const shop = await setUpWorkspace(app, "restored");
    await report(d, app, shop);
    await createBackup(app.services);
    await app.stop();
    app = await d.start(flags(FIRST_URL));
    await push(app);
    await app.stop();
    const options = { backup: undefined, force: true, newMasterKey: false, onProgress: () => {} };
    await restoreOffline({ settings: d.settings(), log: d.log, ...options });
    app = await d.start(flags(SECOND_URL));
    await push(app);
    const [first, again] = sources();
    expect(again).toEqual(first);
  });
});
