// The settings of every instance.
import { setting } from "../setting.ts";

export const basicsSettings = {
  data_dir: setting("KEYRACK_DATA_DIR", "path", "./keyrack-data", "Folder with the database, keys, mail and backups."),
  log_level: setting("KEYRACK_LOG_LEVEL", "level", "info", "Lowest level to log: debug, info, warn or error."),
  region: setting("KEYRACK_REGION", "region", "local", "Name of this region, shown in health responses."),
  master_key_file: setting(
    "KEYRACK_MASTER_KEY_FILE",
    "path",
    "",
    "File with the 32-byte master key; unset = master.key in the data dir.",
  ),
  bootstrap: setting("KEYRACK_BOOTSTRAP", "switch", "on", "off = bootstrap tokens and setup links are not accepted."),
  bootstrap_token: setting(
    "KEYRACK_BOOTSTRAP_TOKEN",
    "text",
    "",
    "Token that can create workspaces; unset = read from the file, or created on the first start.",
    { secret: true },
  ),
  bootstrap_token_file: setting(
    "KEYRACK_BOOTSTRAP_TOKEN_FILE",
    "path",
    "",
    "File with the bootstrap token; unset = bootstrap.token in the data dir.",
  ),
} as const;
