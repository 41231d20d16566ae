// A button that sends a request at once. Errors are shown inline, not as a toast, because the user must act on them.
import { useState } from "preact/hooks";
import { problemMessage, toProblem } from "../api/problems.ts";
import { refreshAfter } from "../api/query.ts";
import { Button, type ButtonProps } from "../components/button.tsx";

type ActionButtonProps = Pick<ButtonProps, "children" | "kind" | "label" | "needs" | "disabled"> & {
  send: () => Promise<void>;
};

/** Anyone may press it unless `needs` says more, but not without a connection. */
export function ActionButton({ send, needs = "member", ...button }: ActionButtonProps) {
  const [refusal, setRefusal] = useState("");
  const [busy, setBusy] = useState(false);
  const press = (): void => {
    setRefusal("");
    setBusy(true);
    send()
      .catch((error: unknown) => {
        const problem = toProblem(error);
        refreshAfter(problem);
        setRefusal(problemMessage(problem));
      })
      .finally(() => setBusy(false));
  };
  return (
    <>
      <Button {...button} needs={needs} busy={busy} onClick={press} />
      <div role="alert" class="alert">
        {refusal !== "" && <p>{refusal}</p>}
      </div>
    </>
  );
}
