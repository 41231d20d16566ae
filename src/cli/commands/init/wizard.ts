// The prompts of `keyrack init`.
import type { SettingTexts } from "../../../config/load.ts";
import { settingsTable, type SettingName } from "../../../config/settings.ts";
import { SLUG_MIN, SLUG_PATTERN, slugOf } from "../../../kernel/slugs.ts";
import { askChoice, askText, askYesNo, intro, log, outro } from "../../ui/prompts.ts";

/** Validates an answer with the setting's own parser. */
function problemWith(name: SettingName): (text: string | undefined) => string | undefined {
  return (text) => {
    try {
      const { parse, defaultText } = settingsTable[name];
      parse(text || defaultText);
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  };
}

function askSetting(
  name: SettingName,
  message: string,
  initialValue = settingsTable[name].defaultText,
): Promise<string> {
  return askText({ message, initialValue, validate: problemWith(name) });
}

async function askDatabase(): Promise<string | undefined> {
  const kind = await askChoice("Which database?", [
    { value: "sqlite", label: "SQLite in the data dir", hint: "one machine, nothing to install" },
    { value: "postgres", label: "PostgreSQL", hint: "several machines" },
  ]);
  return kind === "sqlite"
    ? undefined
    : askSetting("database_url", "PostgreSQL URL", "postgres://keyrack@127.0.0.1/keyrack");
}

async function askMail(): Promise<string | undefined> {
  const kind = await askChoice("How should mail be sent?", [
    { value: "file", label: "Write it to files in the data dir", hint: "to get started" },
    { value: "smtp", label: "Send it through a mail server" },
  ]);
  return kind === "file" ? undefined : askSetting("mail_url", "Mail server URL", "smtp://127.0.0.1:25");
}

/** Asks for the settings that no flag gave. */
export async function askSettings(given: SettingTexts): Promise<SettingTexts> {
  intro("Set up a Keyrack instance");
  const answers: SettingTexts = { ...given };
  answers.data_dir ??= await askSetting("data_dir", "Data directory");
  const database = given.database_url ?? (await askDatabase());
  if (database) answers.database_url = database;
  if (
    given.redis_url === undefined &&
    (await askYesNo("Share rate limits between several machines with Redis?", false))
  )
    answers.redis_url = await askSetting("redis_url", "Redis URL", "redis://127.0.0.1:6379");
  const mail = given.mail_url ?? (await askMail());
  if (mail) {
    answers.mail_url = mail;
    answers.mail_from ??= await askSetting("mail_from", "Sender address");
  }
  const url =
    given.public_url ?? (await askSetting("public_url", "Public URL (leave empty for this machine only)", ""));
  if (url) answers.public_url = url;
  return answers;
}

export function showConnection(name: string, problem: string | null): void {
  if (problem) log.error(`Cannot connect to ${name}: ${problem}`);
  else log.success(`Connected to ${name}`);
}

export async function askWorkspace(given: {
  workspaceName?: string;
  workspaceSlug?: string;
}): Promise<{ name: string; slug: string } | undefined> {
  const wanted = given.workspaceName !== undefined || (await askYesNo("Create the first workspace now?"));
  const workspace = wanted ? await askNameAndSlug(given) : undefined;
  outro("Writing the configuration");
  return workspace;
}

async function askNameAndSlug(given: {
  workspaceName?: string;
  workspaceSlug?: string;
}): Promise<{ name: string; slug: string }> {
  const name =
    given.workspaceName ??
    (await askText({
      message: "Workspace name",
      initialValue: "Acme",
      validate: (text) => (text ? undefined : "Enter a name"),
    }));
  const slug =
    given.workspaceSlug ??
    (await askText({
      message: "Workspace slug",
      initialValue: slugOf(name).padEnd(SLUG_MIN, "0"),
      validate: (text) =>
        new RegExp(SLUG_PATTERN).test(text ?? "") ? undefined : "Use 3 to 63 lower-case letters, digits or hyphens",
    }));
  return { name, slug };
}
