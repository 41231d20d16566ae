// The settings of every instance.
import { onOff, oneOf, path, region, text } from "../parsers.ts";
import { setting } from "../setting.ts";

export const basicsSettings = {
  data_dir: setting(path, "./keyrack-data", "Folder with the database, keys, mail and backups."),
  log_level: setting(
    oneOf("debug", "info", "warn", "error"),
    "info",
    "Lowest level to log: debug, info, warn or error.",
  ),
  region: setting(region, "local", "Name of this region, shown in health responses."),
  master_key_file: setting(path, "", "File with the 32-byte master key; unset = master.key in the data dir."),
  bootstrap: setting(onOff, "on", "off = bootstrap tokens and setup links are not accepted."),
  bootstrap_token: setting(
    text,
    "",
    "Token that can create workspaces; unset = read from the file, or created on the first start.",
    { secret: true },
  ),
  bootstrap_token_file: setting(path, "", "File with the bootstrap token; unset = bootstrap.token in the data dir."),
} as const;
