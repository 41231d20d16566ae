// Credentials in what the library reports and logs, which anyone who sends a request can influence.

import { expect, it } from "vitest";
import { redactCredentials } from "../../../src/sdk/telemetry/redact.ts";

it("redaction of a long text takes linear time", () => {
  for (const unit of ["kr", "krsk_", "a", "a_live_", "0-"]) {
    const text = `/_live_/${unit.repeat(500_000)}`;
    expect(redactCredentials(text).length).toBeLessThanOrEqual(text.length);
  }
});
