// Credentials in what the library reports and logs, which anyone who sends a request can influence.

import { expect, it } from "vitest";
import { redactCredentials } from "../../../src/sdk/telemetry/redact.ts";
import { startTestKeyrack } from "../../../harness/sdk/test-keyrack.ts";

it("redaction of a long text takes linear time", () => {
  for (const unit of ["kr", "krsk_", "a", "a_live_", "0-"]) {
    const text = `/_live_/${unit.repeat(500_000)}`;
    expect(redactCredentials(text).length).toBeLessThanOrEqual(text.length);
  }
});

it("a path that is longer without its credentials is cut, so that its event is not rejected", async () => {
  await using instance = await startTestKeyrack();
  const path = "/kr_abcdef".repeat(300);
  instance.keyrack.report({ method: "GET", path, route: path, status: 404, durationMs: 1 });
  await instance.keyrack.close();
  const [event] = instance.plane.ingest.events;
  expect([event?.path.length, event?.route?.length]).toEqual([2048, 512]);
});
