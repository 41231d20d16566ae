// Lines above the page: no connection, an unencrypted connection, test data.
import { formatClock } from "../../shared/format.ts";
import { offlineSince } from "../api/call.ts";
import { env } from "../links.ts";
import { place } from "../routes.ts";
import { newBuild } from "./new-version.ts";

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** Browsers hide cryptography and the clipboard from plain HTTP, except on this machine. */
const isUnencrypted = location.protocol === "http:" && !LOOPBACK.test(location.hostname);

/** Whether the page shows data of the environment; "both": of live and test, whatever the switch says. */
export type HasEnv = boolean | "both";

export function Banners({ hasEnv }: { hasEnv: HasEnv }) {
  return (
    <>
      {isUnencrypted && (
        <p class="banner warn">
          This connection is not encrypted. Others on the network can read what you see and type.
        </p>
      )}
      {offlineSince.value !== null && (
        <p class="banner bad" role="status">
          {/* One of them, by what the page below could load (layout.css). */}
          Offline. <span class="data-since">Showing data from {formatClock(offlineSince.value)}.</span>
          <span class="no-data">The server cannot be reached.</span>
        </p>
      )}
      {newBuild.value && (
        <p class="banner accent" role="status">
          A new version of this page is available.{" "}
          <button type="button" class="link" onClick={() => location.reload()}>
            Reload
          </button>
        </p>
      )}
      {hasEnv && place.value.kind === "workspace" && env.value === "test" && (
        <p class="test-band">Test data{hasEnv === "both" && " and live data"}</p>
      )}
    </>
  );
}
