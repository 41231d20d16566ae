// docs/jobs.md: the job table, with what each job does.
import { jobs, type Job, type JobName } from "../src/server/jobs.ts";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../src/kernel/durations.ts";
import { heading, row } from "./markdown.ts";

const ABOUT: Record<JobName, string> = {
  mail: "Sends the outbox; a new message also starts it immediately.",
  checkpoints: "Signs a checkpoint for every audit chain that has grown.",
  "checkpoints of busy chains": "Signs a checkpoint for audit chains that have grown by 1,000 rows.",
  "audit verification":
    "Verifies audit chains of more than `KEYRACK_AUDIT_VERIFY_ROWS` rows in full, every `KEYRACK_AUDIT_VERIFY_EVERY`.",
  "signing keys": "Creates, activates and retires the keys that sign embed tokens.",
  "idempotency replays": "Deletes expired responses to requests with an `Idempotency-Key`.",
  "idempotency records": "Deletes expired idempotency records of nodes.",
  "idempotency counts": "Corrects the counts of idempotency records.",
  "silent nodes":
    "Deletes nodes that have not polled for a long time. Those that were seen by a clock that was ahead count as seen now.",
  presence:
    "Records that the service is running. After an outage, nodes that could not report in the meantime still count in receipts.",
  "delta log": "Deletes policy changes that are too old for a delta.",
  "rate counters": "Saves the process's changed rate-limit counters.",
  "steady time": "On SQLite: saves how far leases and windows are behind a wall clock that was set forward.",
  "quota blocks": "Returns quota units that the process has not used for 10 s.",
  "old quota balances": "Deletes balances that no quota has used for 400 days.",
  "old quota grants": "Deletes grants without a reference 400 days after they expired, were voided or were used up.",
  "written bytes":
    "Saves how much each workspace has written today through this process, and checks the free disk space.",
  "old written bytes": "Deletes these sums after two days.",
  "expired rate counters": "Deletes saved rate-limit counters whose window has ended.",
  "ingest receipts": "Deletes the receipts that detect a repeated telemetry batch.",
  "daily usage": "Deletes daily usage that is past its retention.",
  "networks of keys": "Deletes reports of [networks](ip-allow-lists.md) that are older than 30 days.",
  "last uses of keys":
    "Deletes where a key was [last used](keys.md#last-use) from 90 days after its end; all of it with `KEYRACK_LAST_USED_DETAIL=off`.",
  "usage series": "Adds telemetry to the [usage series](usage.md).",
  "old usage series": "Deletes usage series that are past their retention.",
  metering: "Pushes usage by tenant and hour to `KEYRACK_METER_URL` ([metering.md](metering.md)).",
  "search index":
    "Indexes changed keys. A [search](keys.md#find-keys) indexes what is missing itself, so this keeps searches fast.",
  backup: "Creates a backup every `KEYRACK_BACKUP_EVERY`.",
  "restore test": "Restores the newest backup into a scratch database every `KEYRACK_RESTORE_TEST_EVERY`.",
  "deferred revocations":
    "Marks the keys of a deleted project or tenant as revoked, 500 at a time. They are refused from the deletion on.",
  "secret key creators": "Once after an upgrade: fills in from the audit log who created a secret key.",
  "key policies":
    "Every `KEYRACK_KEY_POLICY_EVERY`: revokes [idle keys](key-expiry.md#idle-keys) and sends the notices of projects whose policy says so.",
  "old mail": "Deletes messages that were sent or became undeliverable long ago, and counts of mail older than a day.",
  "old sessions and tokens":
    "Deletes sessions 30 days after their end (a login keeps only the newest 100 of a person), used one-time tokens and old login failures. Login failures beyond 100,000 are deleted too, those of addresses with the fewest first.",
  "missing indexes":
    "On PostgreSQL: builds indexes whose build after a migration was skipped or interrupted. Not with `KEYRACK_MIGRATE=refuse`: use `keyrack db migrate`.",
  "quick check":
    "On SQLite: checks the database once a week, in a thread. Damage is logged, and `keyrack status` shows `database: degraded` until a later check, now once a day, finds none: [restore a backup](backup.md#restore).",
  "WAL checkpoint": "Checkpoints SQLite's write-ahead log while the database is idle.",
};

function interval(ms: number): string {
  if (ms % HOUR_MS === 0) return `${ms / HOUR_MS} h`;
  return ms % MINUTE_MS === 0 ? `${ms / MINUTE_MS} min` : `${ms / SECOND_MS} s`;
}

export function jobsPage(): string {
  const rows = jobs.map((job: Job & { name: JobName }) =>
    row([job.name, interval(job.everyMs) + (job.atStart ? ", and at a start" : ""), job.runsOn, ABOUT[job.name]]),
  );
  return [
    "# Scheduled jobs",
    "",
    'Generated from the job table by `npm run docs`. What Keyrack does in the background. Unless a row says "every process", only the leader, one process of the deployment, runs the job. A job that fails is logged (`job failed`, with its name) and retried at its next interval; meanwhile `keyrack status` shows `worker: degraded`, as it does on a process that has not been able to find out for 15 seconds whether one leads.',
    "",
    ...heading(["job", "every", "runs in", "what it does"]),
    ...rows,
    "",
  ].join("\n");
}
