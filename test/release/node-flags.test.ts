// A checkout starts Node as the binary does, and all that starts Keyrack sets the same allocator.
import { expect, it } from "vitest";
import { MALLOC_ENV } from "../../harness/release/malloc.ts";
import { NODE_FLAGS } from "../../harness/release/node-flags.ts";
import { readText } from "../../harness/repository.ts";

it("bin/keyrack starts Node with the flags of the binary", () => {
  expect(readText("bin/keyrack")).toContain(`exec "$node" ${NODE_FLAGS.join(" ")} `);
});

it.each(["bin/keyrack", "deploy/keyrack.service.in", "deploy/compose/Dockerfile"])("%s sets the allocator", (file) => {
  const text = readText(file).replaceAll(/"\$\{\w+:-(\w+)\}"/g, "$1"); // bin/keyrack keeps what is set
  for (const [name, value] of Object.entries(MALLOC_ENV)) expect(text).toContain(`${name}=${value}`);
});
