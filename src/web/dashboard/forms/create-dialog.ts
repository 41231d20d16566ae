// Whether a page's dialog for a new record is open. An address with `create` opens it, as the command palette does.
import { useEffect, useState } from "preact/hooks";
import { param, setParams } from "../links.ts";
import { roleReason } from "../components/button.tsx";

export function useCreating(): [creating: boolean, setCreating: (on: boolean) => void] {
  const [creating, setCreating] = useState(false);
  const asked = param("create") !== "";
  useEffect(() => {
    if (!asked) return;
    setCreating(roleReason("admin") === null);
    setParams({ create: null }, { replace: true });
  }, [asked]);
  return [creating, setCreating];
}
