// The systemd unit, from its one source. install.sh fills in the same file with sed.
import { readFileSync } from "node:fs";

const template = new URL("../../deploy/keyrack.service.in", import.meta.url);

/** The unit of a binary that is installed at this path and keeps its data in /var/lib/keyrack. */
export function systemdUnit(binary: string): string {
  return readFileSync(template, "utf8").replace("@BINARY@", binary);
}
