// The table of examples/README.md: it has every example, and how each is run agrees with the example's own README.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readText, root } from "../../harness/repository.ts";

/** Only a link to where it moved. */
const MOVED = ["compose"];

const rows = Array.from(
  readText("examples/README.md").matchAll(/^\| \[([\w-]+)\]\(([^)]+)\) \| .+ \| `([^`]+)`.* \|$/gm),
  ([, name = "", link = "", command = ""]) => ({ name, link, command }),
);

it("lists every example once, with a link to its README", () => {
  const folders = readdirSync(join(root, "examples"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const names = folders.map(({ name }) => name).filter((name) => !MOVED.includes(name));
  expect(rows.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
  expect(rows.map(({ link }) => link)).toEqual(rows.map(({ name }) => `${name}/README.md`));
});

it("runs each as its README does", () => {
  for (const { name, command } of rows) {
    const readme = readText(`examples/${name}/README.md`);
    // The applications are started by a shell that makes a key for them first.
    const parts = command.includes("node app.mjs") ? command.split(" -- ") : [command];
    for (const part of parts) expect(readme, name).toContain(part);
  }
});
