// The server itself: health of its components, the last restore test, version, and commands for its operator.
import type { RouteOutput } from "../../../client.ts";
import { POLL_MS, useRead } from "../api/query.ts";
import { Badge, Chips, type Tone } from "../components/badge.tsx";
import { CopyText } from "../components/copy.tsx";
import { Facts, Page, Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Snippet } from "../components/snippet.tsx";
import { Time } from "../components/time.tsx";

type Status = RouteOutput<"GET /status">;
type Instance = RouteOutput<"GET /v1/instance">;

const COMPONENTS: Record<keyof Status["components"], string> = {
  api: "API",
  database: "Database",
  redis: "Redis",
  worker: "Scheduled jobs",
  backup: "Backups",
};

const TONES: Record<string, Tone> = { ok: "good", degraded: "warn", down: "bad" };
const WORDS: Record<string, string> = {
  ok: "Normal",
  degraded: "Degraded",
  down: "Down",
  off: "Off",
  disabled: "Off",
  unknown: "Unknown",
};

function Health({ state }: { state: string }) {
  return <Badge tone={TONES[state] ?? "plain"}>{WORDS[state] ?? state}</Badge>;
}

function Components({ status }: { status: Status }) {
  const names = Object.keys(COMPONENTS) as (keyof typeof COMPONENTS)[];
  return (
    <Facts
      facts={Object.fromEntries(
        names.map((name) => [COMPONENTS[name], <Health key={name} state={status.components[name]} />]),
      )}
    />
  );
}

function RestoreTest({ status: { components, restoreTest } }: { status: Status }) {
  const { lastRunAt, pass, backupId } = restoreTest;
  if (lastRunAt === null && WORDS[components.backup] === "Off")
    return (
      <p class="muted">
        Scheduled backups are off. <code>KEYRACK_BACKUP_EVERY=24h</code> turns them on; the newest one is then restored
        on trial every week.
      </p>
    );
  return (
    <Facts
      facts={{
        "Restore test": <Time at={lastRunAt} none="Never run" />,
        Result:
          pass === null ? (
            <span class="muted">None yet</span>
          ) : (
            <Badge tone={pass ? "good" : "bad"}>{pass ? "Passed" : "Failed"}</Badge>
          ),
        Backup: backupId === null ? "None" : <code>{backupId}</code>,
      }}
    />
  );
}

/** A newer server may have values that this page does not know: they are shown as they are. */
type Words = Partial<Record<string, string>>;
const DATABASES: Words = { sqlite: "SQLite", postgres: "PostgreSQL" };
const COUNTERS: Words = { memory: "In memory", redis: "Redis" };
const MAIL: Words = {
  smtp: "Sent by SMTP",
  file: "Written to files, not delivered",
  log: "Written to the log, not delivered",
};

function Server({ instance, versions }: { instance: Instance; versions: readonly string[] }) {
  const others = versions.filter((version) => version !== instance.version);
  return (
    <Facts
      facts={{
        Version: instance.version,
        "Also running": others.length > 0 && <Chips values={others} />,
        Region: instance.region,
        Address: <CopyText text={instance.public_url} name="Copy address" />,
        Database: DATABASES[instance.database] ?? instance.database,
        Counters: COUNTERS[instance.counters] ?? instance.counters,
        Mail: MAIL[instance.mail] ?? instance.mail,
      }}
    />
  );
}

const COMMANDS = `keyrack doctor          # risks and how to fix them
keyrack status          # health of this server
keyrack backup create   # a backup now
keyrack backup test     # try to restore the newest`;

export function InstancePage() {
  const status = useRead("GET /status", {}, { everyMs: POLL_MS.usual });
  const instance = useRead("GET /v1/instance", {});
  const versions = status.state.value.data?.versions ?? [];
  return (
    <Page title="Instance" lead="The Keyrack server that you are connected to.">
      <div class="two-columns">
        <div>
          <Panel title="Components">
            <Loaded read={status}>{(data) => <Components status={data} />}</Loaded>
          </Panel>
          <Panel title="For the operator">
            <p>Settings and backups are managed on the server itself:</p>
            <Snippet name="commands" code={COMMANDS} />
          </Panel>
        </div>
        <div>
          <Panel title="Server">
            <Loaded read={instance}>{(data) => <Server instance={data} versions={versions} />}</Loaded>
          </Panel>
          <Panel title="Backups">
            <Loaded read={status} rows={3}>
              {(data) => <RestoreTest status={data} />}
            </Loaded>
          </Panel>
        </div>
      </div>
    </Page>
  );
}
