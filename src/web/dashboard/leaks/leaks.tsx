// Keys that a secret scanner has found in public: where, and how long they still work.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { POLL_MS, useRead } from "../api/query.ts";
import type { SecretKey } from "../api/records.ts";
import { RevokeSecretKey, RotateSecretKey } from "../developers/secret-key-dialogs.tsx";
import { env, hrefTo } from "../here.ts";
import { KeyName } from "../keys/key-name.tsx";
import { RevokeKey } from "../keys/revoke.tsx";
import { RotateKey } from "../keys/rotate.tsx";
import { keyTitle, rotateReason, type ApiKey } from "../keys/state.ts";
import { Button, LinkButton } from "../parts/button.tsx";
import { Empty } from "../parts/empty.tsx";
import { Page, Panel } from "../parts/page.tsx";
import { Pager, pageCursor, pageSize } from "../parts/pager.tsx";
import { Loaded } from "../parts/skeleton.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { FoundAt } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";

const every = { everyMs: POLL_MS.seldom };

type Leaked = ApiKey | SecretKey;
type Action = "rotate" | "revoke";
type Chosen = { of: Leaked; action: Action };

function columns(name: (key: Leaked) => ComponentChildren, onChoose: (chosen: Chosen) => void): Column<Leaked>[] {
  const button = (of: Leaked, action: Action, label: string, disabled: string | null) => (
    <Button
      needs="admin"
      label={`${label} ${keyTitle(of)}`}
      disabled={disabled}
      onClick={() => onChoose({ of, action })}
    >
      {label}
    </Button>
  );
  return [
    { head: "Key", names: true, cell: name },
    {
      head: "Reported",
      room: 780,
      cell: ({ quarantined_at }) => <Time at={quarantined_at} />,
      fold: ({ quarantined_at }) => <Time at={quarantined_at} />,
      foldsHead: true,
    },
    { head: "Found at", cell: ({ quarantine_reason }) => <FoundAt reason={quarantine_reason} isCell /> },
    { head: "Stops working", cell: ({ expires_at }) => <Time at={expires_at} /> },
    {
      head: "Actions",
      actions: true,
      cell: (key) => (
        <div class="buttons">
          {button(key, "rotate", "Rotate", rotateReason(key))}
          {button(key, "revoke", "Revoke", null)}
        </div>
      ),
    },
  ];
}

const linkedName = (key: Leaked): ComponentChildren => (
  <a href={hrefTo("keys", { id: key.id })}>
    <KeyName of={key} />
  </a>
);

function Dialog({ chosen: { of, action }, onClose }: { chosen: Chosen; onClose: () => void }) {
  if (of.object === "api_key")
    return action === "rotate" ? <RotateKey of={of} onClose={onClose} /> : <RevokeKey of={of} onClose={onClose} />;
  return action === "rotate" ? (
    <RotateSecretKey of={of} onClose={onClose} />
  ) : (
    <RevokeSecretKey of={of} onClose={onClose} />
  );
}

function NoLeaks() {
  return (
    <Empty
      icon="leak"
      title="No key has leaked"
      action={<LinkButton href={hrefTo("keys")}>Open the keys</LinkButton>}
      command="keyrack scan ."
    >
      When a secret scanner finds one of your keys in public, the key is listed here and stops working within an hour.
      Scan your own code to find keys before others do.
    </Empty>
  );
}

/** The newest: a workspace has few leaked secret keys. */
const SECRET_KEYS_MAX = 200;

export function LeaksPage() {
  const cursor = pageCursor();
  const paging = { limit: pageSize(), ...(cursor !== undefined && { cursor }) };
  const leaked = { env: env.value, state: "quarantined" as const };
  const keys = useRead("GET /v1/keys", { query: { ...leaked, ...paging } }, every);
  const secretKeys = useRead("GET /v1/secret_keys", { query: { ...leaked, limit: SECRET_KEYS_MAX } }, every);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const leakedSecrets = secretKeys.state.value.data?.data;
  return (
    <Page title="Leaks" lead="Keys that were found in public. Replace them, then revoke them.">
      <Loaded read={secretKeys} rows={1}>
        {() =>
          leakedSecrets &&
          leakedSecrets.length > 0 && (
            <Panel title="Secret keys">
              <Table
                caption="Leaked secret keys"
                columns={columns((key) => <KeyName of={key} />, setChosen)}
                rows={leakedSecrets}
                rowKey={({ id }) => id}
              />
            </Panel>
          )
        }
      </Loaded>
      <Loaded read={keys}>
        {({ data, next_cursor = null }) => (
          <>
            {data.length > 0 && (
              <Table
                caption="Leaked keys"
                columns={columns(linkedName, setChosen)}
                rows={data}
                rowKey={({ id }) => id}
              />
            )}
            {(next_cursor !== null || cursor !== undefined) && (
              <Pager next={next_cursor} shown={data.length} what="key" />
            )}
            {leakedSecrets?.length === 0 && data.length === 0 && cursor === undefined && <NoLeaks />}
          </>
        )}
      </Loaded>
      {chosen && <Dialog chosen={chosen} onClose={() => setChosen(null)} />}
    </Page>
  );
}
