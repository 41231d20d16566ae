// The push of usage to a metering system: an event for each live tenant, project and hour, and a further one for what
// comes late. What was sent and not accepted is sent again under the same id, after a crash too, so a receiver that
// deduplicates by source and id counts each unit once.
import { readFile } from "node:fs/promises";
import { failureOf, post, type Posted } from "../../platform/post.ts";
import type { Tx } from "../../store/engine/tx.ts";
import { writeFact } from "../../store/queries/deployment.ts";
import { refusePart, settlePart, unsettledHours } from "../../store/queries/metering.ts";
import { TO_SEND } from "../../store/usage/metered-hours.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { partsToSend, sourceBase, type MeterPart } from "./events.ts";
import { PartMaker } from "./parts.ts";
import { warnOfLoss } from "./status.ts";

const EVENTS_MAX = 100;
/** The receiver will never take these events as they are. */
const REFUSALS = [400, 413, 422];
/** The receiver has one of these events already, or cannot take one for a moment. */
const CONFLICT = 409;
/** How often an event is sent again that the receiver seems to have. */
const CONFLICT_RETRIES = 3;
const TOKEN = /^[\x21-\x7e]+$/;

/** The receiver cannot take anything now. */
class ReceiverUnavailable extends Error {
  readonly retryAfterMs: number;
  constructor(reason: string, retryAfterMs = 0) {
    super(reason);
    this.retryAfterMs = retryAfterMs;
  }
}

/** Scheduled job. Ends when everything that is due was sent, or when the receiver cannot take it. */
export async function pushUsage(services: Services, options: { evenIfWaiting?: boolean } = {}): Promise<void> {
  if (services.settings.meter_url === null) return;
  await services.meter.run(() => tryToPush(services, options.evenIfWaiting ?? false));
}

async function tryToPush(services: Services, evenIfWaiting: boolean): Promise<void> {
  const { meter, clock, log } = services;
  await warnOfLoss(services);
  if (clock.now() < meter.retryAt && !evenIfWaiting) return;
  try {
    await sendDue(services);
  } catch (error) {
    if (!(error instanceof ReceiverUnavailable)) throw error;
    meter.failed(clock.now(), error.message, error.retryAfterMs);
    await record(services, (tx) => writeOutcome(tx, services));
    const retry_in_s = Math.ceil((meter.retryAt - clock.now()) / 1_000);
    log.warn("usage was not pushed", { error: error.message, retry_in_s });
  }
}

async function sendDue(services: Services): Promise<void> {
  const { store, shutdown } = services;
  const maker = new PartMaker(services);
  while (!shutdown.signal.aborted) {
    const rows = await unsettledHours.all(store.read, { ...TO_SEND, limit: EVENTS_MAX });
    if (rows.length === 0) {
      if ((await maker.makeParts()) === 0) return;
      continue;
    }
    const base = await sourceBase(services);
    const parts = rows.flatMap((row) => partsToSend(base, row)).slice(0, EVENTS_MAX);
    if (parts.length === 0) throw new Error("a metered hour that is due has no part to send");
    const conflict = await send(services, parts);
    if (conflict) throw unavailable(services, conflict);
  }
}

function unavailable(services: Services, response: Posted): ReceiverUnavailable {
  return new ReceiverUnavailable(`the receiver responded ${response.status}`, retryAfter(services, response));
}

/**
 * Halves a refused request until the events that the receiver refuses are alone. Returns the last conflict after which
 * an event is to be sent again.
 */
async function send(services: Services, parts: readonly MeterPart[]): Promise<Posted | undefined> {
  const [first] = parts;
  if (!first) return undefined;
  await services.store.durable();
  const response = await request(services, parts);
  const { status } = response;
  if (status >= 200 && status < 300) return settle(services, parts);
  if (status !== CONFLICT && !REFUSALS.includes(status)) throw unavailable(services, response);
  if (parts.length === 1)
    return status === CONFLICT ? resolveConflict(services, first, response) : setAside(services, first, status);
  const middle = Math.ceil(parts.length / 2);
  const conflict = await send(services, parts.slice(0, middle));
  return (await send(services, parts.slice(middle))) ?? conflict;
}

/**
 * A conflict that does not pass means that the receiver took the event and its response was lost: the figures of an id
 * never change.
 */
async function resolveConflict(services: Services, part: MeterPart, response: Posted): Promise<Posted | undefined> {
  const { meter, log } = services;
  const { id } = part.event;
  const conflicts = (meter.conflicts.get(id) ?? 0) + 1;
  meter.conflicts.set(id, conflicts);
  if (conflicts <= CONFLICT_RETRIES) return response;
  log.warn("the metering system has an event already; it counts as sent", { event_id: id, conflicts });
  return settle(services, [part]);
}

async function request({ settings }: Services, parts: readonly MeterPart[]): Promise<Posted> {
  const { meter_url, meter_token_file } = settings;
  const body = JSON.stringify(parts.map(({ event }) => event));
  try {
    const authorization = meter_token_file ? { authorization: `Bearer ${await readToken(meter_token_file)}` } : {};
    const headers = { "content-type": "application/cloudevents-batch+json", ...authorization };
    return await post(meter_url as string, headers, body);
  } catch (error) {
    throw new ReceiverUnavailable(failureOf(error));
  }
}

/** Refuses what no header can hold: the error of `fetch` would repeat the token. */
async function readToken(file: string): Promise<string> {
  const token = (await readFile(file, "utf8")).trim();
  if (!TOKEN.test(token)) throw new Error("KEYRACK_METER_TOKEN_FILE does not contain a token");
  return token;
}

function retryAfter({ clock }: Services, response: Posted): number {
  const text = response.retryAfter ?? "";
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - clock.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}

async function settle(services: Services, parts: readonly MeterPart[]): Promise<undefined> {
  services.meter.succeeded(services.clock.now());
  await record(services, async (tx) => {
    for (const { hour, group_id, part } of parts) await settlePart.run(tx, { hour, group_id, part });
    await writeOutcome(tx, services);
  });
  for (const { event } of parts) services.meter.conflicts.delete(event.id);
}

function writeOutcome(tx: Tx, { meter }: Services): Promise<number> {
  return writeFact.run(tx, { name: "meter", value: JSON.stringify(meter.outcome) });
}

async function setAside(
  services: Services,
  { hour, group_id, part, event }: MeterPart,
  status: number,
): Promise<undefined> {
  services.meter.conflicts.delete(event.id);
  services.meter.refused++;
  services.log.error("the metering system refused an event; see keyrack meter status", { event_id: event.id, status });
  await record(services, (tx) => refusePart.run(tx, { hour, group_id, part }));
}
