// After setup: the two keys, a snippet that runs as it is printed, and the first steps as they are done.
import { useEffect, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { workspaceId } from "../api/session.ts";
import { useUnsaved } from "../api/unsaved.ts";
import { serverUrl } from "../links.ts";
import { Checklist, useSteps } from "../home/checklist.tsx";
import { Button, LinkButton } from "../components/button.tsx";
import { Secret } from "../forms/secret.tsx";
import { Skeleton } from "../components/skeleton.tsx";
import { SnippetTabs } from "../components/snippet.tsx";
import { Card } from "./card.tsx";

export type Made = RouteOutput<"POST /v1/setup">;

/** A server that was started from a checkout or a download is not on PATH: then its own path is tried. */
function commandText(command: string): string {
  if (command === "keyrack") return command;
  const quoted = `'${command.replaceAll("'", "'\\''")}'`;
  return `"$(command -v keyrack || echo ${quoted})"`;
}

/**
 * Sends a request with the key. What was started in the background listens a moment later; until then curl would print
 * an error each time, so it is silent.
 */
const requestWith = (key: string, address: string): string =>
  `curl -i -s --retry 20 --retry-delay 1 --retry-connrefused -H "authorization: Bearer ${key}" http://${address} || echo "No answer from the verifier."`;

function terminalSnippet({ project, secret_key, api_key, command }: Made): string {
  return [
    `export KEYRACK_URL=${serverUrl()} KEYRACK_PROJECT_ID=${project.id}`,
    `KEYRACK_SECRET_KEY=${secret_key.key} ${commandText(command)} gateway &`,
    requestWith(api_key.key, "127.0.0.1:4748/verify"),
  ].join("\n");
}

function nodeSnippet({ project, secret_key, api_key }: Made): string {
  return [
    "npm install @keyrack/sdk",
    "cat > server.mjs <<'END'",
    'import { createServer } from "node:http";',
    'import { createKeyrack } from "@keyrack/sdk";',
    'import { protect } from "@keyrack/sdk/node";',
    "const keyrack = createKeyrack({",
    `  url: "${serverUrl()}",`,
    `  secretKey: "${secret_key.key}",`,
    `  projectId: "${project.id}",`,
    "});",
    "await keyrack.ready();",
    'createServer(protect(keyrack, {}, (req, res) => res.end("Hello\\n"))).listen(3000);',
    "END",
    "node server.mjs &",
    requestWith(api_key.key, "127.0.0.1:3000/"),
  ].join("\n");
}

function Steps() {
  const steps = useSteps("test");
  return steps ? <Checklist steps={steps} /> : <Skeleton />;
}

/** The keys are masked until they are asked for, or selected. */
function TryIt({ made, onCopied }: { made: Made; onCopied: () => void }) {
  const [shown, setShown] = useState(false);
  const secrets = [made.secret_key.key, made.api_key.key];
  const mask = (code: string): string =>
    shown ? code : secrets.reduce((text, secret) => text.replaceAll(secret, `${secret.slice(0, 10)}…`), code);
  return (
    <>
      <h2>Try it</h2>
      <p>Run this. It connects a verifier and sends a first request, which completes the next two steps below.</p>
      <div class="no-print">
        <SnippetTabs
          label="Try it"
          snippets={[
            ["Terminal", terminalSnippet(made)],
            ["Node", nodeSnippet(made)],
          ]}
          mask={mask}
          onSelect={() => setShown(true)}
          onCopied={onCopied}
        />
      </div>
      <div class="buttons">
        <Button pressed={shown} onClick={() => setShown(!shown)}>
          Show keys in the snippet
        </Button>
      </div>
    </>
  );
}

export function Ready({ made }: { made: Made }) {
  const [secretStored, setSecretStored] = useState(false);
  const [keyStored, setKeyStored] = useState(false);
  useUnsaved(!(secretStored && keyStored), "key");
  useEffect(() => {
    workspaceId.value = made.workspace.id;
  }, []);
  const storeSecret = (): void => setSecretStored(true);
  const storeKey = (): void => setKeyStored(true);
  // It has both keys in it.
  const storeBoth = (): void => {
    storeSecret();
    storeKey();
  };
  return (
    <Card key="ready" title="Ready" tone="good" wide>
      <p>Your workspace has a project, a customer and two test keys. This is the only time the keys are shown.</p>
      <h2>Secret key, for your backend</h2>
      <Secret secret={made.secret_key.key} variable="KEYRACK_SECRET_KEY" onStored={storeSecret} />
      <h2>API key, for your first customer</h2>
      <Secret secret={made.api_key.key} variable="API_KEY" onStored={storeKey} />
      <TryIt made={made} onCopied={storeBoth} />
      <h2>Next</h2>
      {workspaceId.value === made.workspace.id && <Steps />}
      <div class="buttons">
        <LinkButton kind="primary" href={`#/w/${made.workspace.slug}/test/home`}>
          Open the workspace
        </LinkButton>
      </div>
    </Card>
  );
}
