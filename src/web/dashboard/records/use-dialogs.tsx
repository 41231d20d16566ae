// Opens dialogs: one of several about a record, and the one that creates a record.
import type { FunctionComponent, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Role } from "../api/session.ts";
import { Button, roleReason } from "../components/button.tsx";
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

type Create = { button: VNode; dialog: VNode | false; open: () => void };

/** Also opened by an address with `create`, as the command palette has. */
export function useCreate(
  label: string,
  Dialog: FunctionComponent<{ onClose: () => void }>,
  needs: Role = "admin",
): Create {
  const [isOpen, setOpen] = useState(false);
  const asked = param("create") !== "";
  useEffect(() => {
    if (!asked) return;
    setOpen(roleReason(needs) === null);
    setParams({ create: null }, { replace: true });
  }, [asked]);
  const open = (): void => setOpen(true);
  return {
    open,
    button: (
      <Button kind="primary" icon="plus" needs={needs} onClick={open}>
        {label}
      </Button>
    ),
    dialog: isOpen && <Dialog onClose={() => setOpen(false)} />,
  };
}
