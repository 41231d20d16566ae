// A checkout starts Node as the binary does.
import { expect, it } from "vitest";
import { NODE_FLAGS } from "../../harness/release/node-flags.ts";
import { readText } from "../../harness/repository.ts";

it("bin/keyrack starts Node with the flags of the binary", () => {
  expect(readText("bin/keyrack")).toContain(`exec "$node" ${NODE_FLAGS.join(" ")} `);
});
