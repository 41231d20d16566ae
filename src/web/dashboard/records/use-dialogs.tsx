// Opens dialogs: one of several about a record, and the one that creates a record.
import type { FunctionComponent, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Role } from "../api/session.ts";
import { Button, roleReason } from "../components/button.tsx";
import { Dialog, DoneButton } from "../components/dialog.tsx";
import { param, setParams } from "../links.ts";

type RecordDialog<T> = FunctionComponent<{ of: T; onClose: () => void }>;

type Dialogs<T, Name extends string> = {
  open: (name: Name, of: T) => void;
  /** The open one. It keeps the record as it was then: what it asks about must not change below it. */
  dialog: VNode | null;
};

export function useDialogs<T, Name extends string>(dialogs: Readonly<Record<Name, RecordDialog<T>>>): Dialogs<T, Name> {
  const [shown, setShown] = useState<{ name: Name; of: T } | null>(null);
  const Shown: RecordDialog<T> | null = shown && dialogs[shown.name];
  return {
    open: (name, of) => setShown({ name, of }),
    dialog: shown && Shown && <Shown of={shown.of} onClose={() => setShown(null)} />,
  };
}

type Creating = { button: VNode; dialog: VNode | false; open: () => void };

/** An address asks for what the person may not do. */
function Refused({ label, children, onClose }: { label: string; children: string; onClose: () => void }) {
  return (
    <Dialog title={label} onClose={onClose}>
      <p>{children}</p>
      <DoneButton onClick={onClose}>Close</DoneButton>
    </Dialog>
  );
}

/** Also opened by an address with `create`, as the command palette has. */
export function useCreate(
  label: string,
  Create: FunctionComponent<{ onClose: () => void }>,
  needs: Role = "admin",
): Creating {
  // As it was then: what is being typed must stay when the connection is lost.
  const [opened, setOpened] = useState<{ refused: string | null } | false>(false);
  const asked = param("create") !== "";
  useEffect(() => {
    if (!asked) return;
    setOpened({ refused: roleReason(needs) });
    setParams({ create: null }, { replace: true });
  }, [asked]);
  const open = (): void => setOpened({ refused: null });
  const onClose = (): void => setOpened(false);
  return {
    open,
    button: (
      <Button kind="primary" icon="plus" needs={needs} onClick={open}>
        {label}
      </Button>
    ),
    dialog:
      opened &&
      (opened.refused === null ? (
        <Create onClose={onClose} />
      ) : (
        <Refused {...{ label, onClose }}>{opened.refused}</Refused>
      )),
  };
}
