// The button that creates a record, and its dialog. An address with `create` opens it, as the command palette does.
import type { FunctionComponent, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { param, setParams } from "../links.ts";
import { Button, roleReason } from "../components/button.tsx";

type Create = { button: VNode; dialog: VNode | false };

export function useCreate(label: string, Dialog: FunctionComponent<{ onClose: () => void }>): Create {
  const [isOpen, setOpen] = useState(false);
  const asked = param("create") !== "";
  useEffect(() => {
    if (!asked) return;
    setOpen(roleReason("admin") === null);
    setParams({ create: null }, { replace: true });
  }, [asked]);
  return {
    button: (
      <Button kind="primary" icon="plus" needs="admin" onClick={() => setOpen(true)}>
        {label}
      </Button>
    ),
    dialog: isOpen && <Dialog onClose={() => setOpen(false)} />,
  };
}
