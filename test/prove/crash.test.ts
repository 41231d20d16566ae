// The short version of `npm run prove -- crash`: three kills on each database.
import { describe, expect, it } from "vitest";
import { crash } from "../../prove/crash.ts";
import { backends } from "../../harness/databases/backends.ts";
import { shortRun } from "./short.ts";

const ROUNDS = 3;

describe.concurrent("kill -9 under mixed load", () => {
  for (const back of backends) {
    it(`loses nothing acknowledged on ${back} and leaves the chain intact`, async () => {
      const { figures } = await shortRun(crash, back, ROUNDS, 7);
      expect(figures).toMatchObject({ lost: 0 });
      expect(figures.acknowledged).toBeGreaterThanOrEqual(ROUNDS);
    });
  }
});
