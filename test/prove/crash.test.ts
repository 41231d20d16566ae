// The short version of `npm run prove -- crash`: one kill, by default on one database. On SQLite, power cuts
// (disk.test.ts) end the process in the same way and forget more.
import { expect, it } from "vitest";
import { crash } from "../../prove/crash.ts";
import { databasesOf, shortRun } from "./short.ts";

it.each(databasesOf("postgres"))(
  "kill -9 loses nothing acknowledged on %s and leaves the chain intact",
  async (backend) => {
    const { figures } = await shortRun(crash, backend, 1, 7);
    expect(figures).toMatchObject({ lost: 0 });
    expect(figures.acknowledged).toBeGreaterThanOrEqual(1);
  },
);
