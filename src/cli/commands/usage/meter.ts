// `keyrack meter status/replay/retry`: the push of usage to a metering system, as the operator.
import type { Command } from "commander";
import { parseTimestamp } from "../../../kernel/timestamps.ts";
import type { MeterView } from "../../../domain/metering/status.ts";
import { operate, operatorFlags, type OperatorOptions } from "../../operator.ts";
import { ExitError, escapeControls, minute, plural, printResult, table } from "../../ui/output.ts";

type Range = { from: string; to: string };

export function addTo(program: Command): void {
  const meter = program.command("meter");
  operatorFlags(
    meter.command("status"),
    ["keyrack meter status", "keyrack meter status --json"],
    "print only the ids of refused events",
  )
    .description("Show usage that has not been pushed yet, and why.")
    .action((options: OperatorOptions) => status(options));
  operatorFlags(
    meter.command("replay"),
    [
      "keyrack meter replay --from 2026-11-01T00:00Z --to 2026-11-02T00:00Z",
      "keyrack meter replay --from 2026-11-01T00:00Z --to 2026-11-01T06:00Z --json",
    ],
    "print only the number of hours",
  )
    .description("Resend hours that were already accepted, with the same ids.")
    .requiredOption("--from <time>", "start of the first hour")
    .requiredOption("--to <time>", "end of the last hour")
    .action((options: OperatorOptions & Range) => replay(options));
  operatorFlags(
    meter.command("retry"),
    ["keyrack meter retry", "keyrack meter retry --json"],
    "print only the number of hours",
  )
    .description("Push now, including events that the metering system refused.")
    .action((options: OperatorOptions) => retry(options));
}

function describe(view: MeterView): string {
  if (view.url === null) return "The push is off: KEYRACK_METER_URL is not set.";
  const lines = [
    ["url", view.url],
    ["oldest unsent hour", minute(view.oldest_unsent_hour)],
    ["deleted at", minute(view.deleted_at)],
    ["hours to send", String(view.unsettled)],
    ["refused hours", String(view.refused)],
    ["last sent at", minute(view.last_sent_at)],
    ["last error", escapeControls(view.last_error ?? "-")],
    ["next attempt at", minute(view.next_attempt_at)],
  ];
  const ids = view.refused_ids.length > 0 ? ["", "Refused events:", ...view.refused_ids] : [];
  return [table(lines), ...ids].join("\n");
}

async function status(options: OperatorOptions): Promise<void> {
  const json = await operate(options, "meter.status");
  printResult(options, { json, quiet: json.refused_ids.join("\n"), human: describe(json) });
}

async function replay(options: OperatorOptions & Range): Promise<void> {
  const [from, to] = [parseTimestamp(options.from), parseTimestamp(options.to)];
  if (from === null) throw new ExitError("--from must be a time such as 2026-11-01T00:00Z.", 2);
  if (to === null || to <= from) throw new ExitError("--to must be a time after --from.", 2);
  show(options, await operate(options, "meter.replay", { from, to }));
}

async function retry(options: OperatorOptions): Promise<void> {
  show(options, await operate(options, "meter.retry"));
}

function show(options: OperatorOptions, json: MeterView & { hours: number }): void {
  const human = `${plural(json.hours, "tenant hour")} to resend.\n${describe(json)}`;
  printResult(options, { json, quiet: String(json.hours), human });
}
