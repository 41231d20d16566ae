// install.sh, ended by a signal at its worst moment: between the two renames that swap the binary with the one before
// it.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { machine, which } from "../../harness/release/machine.ts";
import { writeSmallRelease } from "../../harness/release/small-release.ts";
import { root } from "../../harness/repository.ts";
import { releasedInstallScript } from "../../tools/release/install-script.ts";

it("a signal while the binaries are swapped loses neither", async () => {
  const script = releasedInstallScript(readFileSync(join(root, "install.sh"), "utf8"), "# no key\n");
  using m = machine({ script });
  for (const version of ["1.2.3", "1.3.0"]) writeSmallRelease(m.at(version), { version });
  expect((await m.run(["--from", "1.2.3"])).code).toBe(0);
  rmSync(m.at("programs/mv"));
  const mv = `#!/bin/sh\n${which("mv")} "$@"\ncase $3 in */bin/keyrack) echo signalled; kill -TERM $PPID ;; esac\n`;
  writeFileSync(m.at("programs/mv"), mv, { mode: 0o755 });
  expect((await m.run(["--from", "1.3.0"])).output).toContain("signalled");
  expect(m.installed()).toEqual(["1.3.0", "1.2.3"]);
  expect((await m.run(["--rollback"])).output).toContain("signalled");
  expect(m.installed()).toEqual(["1.2.3", "1.3.0"]);
  expect(readdirSync(m.at("prefix/bin")).toSorted()).toEqual(["keyrack", "keyrack.previous"]);
});
