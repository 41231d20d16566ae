// The questions of `keyrack init`, on a terminal.
import * as clack from "@clack/prompts";
import { settingsTable, type SettingName } from "../../../config/settings.ts";
import { readers } from "../../../config/parsers.ts";
import { ExitError } from "../../ui/output.ts";

type Answers = Partial<Record<SettingName, string>>;

function orStop<T>(answer: T): Exclude<T, symbol> {
  if (clack.isCancel(answer)) {
    clack.cancel("Nothing was written.");
    throw new ExitError("Stopped.", 2);
  }
  return answer as Exclude<T, symbol>;
}

/** A setting's own reader says whether an answer will do. */
function problemOf(name: SettingName): (text: string | undefined) => string | undefined {
  return (text) => {
    try {
      readers[settingsTable[name].kind](text || settingsTable[name].fallback);
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  };
}

async function askText(
  name: SettingName,
  message: string,
  initialValue = settingsTable[name].fallback,
): Promise<string> {
  return orStop(await clack.text({ message, initialValue, validate: problemOf(name) })) ?? "";
}

async function askDatabase(): Promise<string | undefined> {
  const kind = orStop(
    await clack.select({
      message: "Which database?",
      options: [
        { value: "sqlite", label: "SQLite in the data dir", hint: "one machine, nothing to install" },
        { value: "postgres", label: "PostgreSQL", hint: "several machines" },
      ],
    }),
  );
  return kind === "sqlite"
    ? undefined
    : askText("database_url", "PostgreSQL address", "postgres://keyrack@127.0.0.1/keyrack");
}

async function askMail(): Promise<string | undefined> {
  const kind = orStop(
    await clack.select({
      message: "How does mail go out?",
      options: [
        { value: "file", label: "As files in the data dir", hint: "to start with" },
        { value: "smtp", label: "Through a mail server" },
      ],
    }),
  );
  return kind === "file" ? undefined : askText("mail_url", "Mail server", "smtp://127.0.0.1:25");
}

/** Asks for what no flag gave. */
export async function askSettings(given: Answers): Promise<Answers> {
  clack.intro("Keyrack: set up an instance");
  const answers: Answers = { ...given };
  answers.data_dir ??= await askText("data_dir", "Where may it keep its data?");
  const database = given.database_url ?? (await askDatabase());
  if (database) answers.database_url = database;
  if (given.redis_url === undefined) {
    const wanted = orStop(
      await clack.confirm({
        message: "Share rate limits between several machines through Redis?",
        initialValue: false,
      }),
    );
    if (wanted) answers.redis_url = await askText("redis_url", "Redis address", "redis://127.0.0.1:6379");
  }
  const mail = given.mail_url ?? (await askMail());
  if (mail) {
    answers.mail_url = mail;
    answers.mail_from ??= await askText("mail_from", "Sender of mail");
  }
  const url =
    given.public_url ?? (await askText("public_url", "Address people will use (empty = this machine only)", ""));
  if (url) answers.public_url = url;
  return answers;
}

export function showTried(what: string, problem: string | null): void {
  if (problem) clack.log.error(`${what}: ${problem}`);
  else clack.log.success(`${what} answers.`);
}

export async function askWorkspace(given: {
  workspaceName?: string;
  workspaceSlug?: string;
}): Promise<{ name: string; slug: string } | undefined> {
  if (!given.workspaceName) {
    const wanted = orStop(await clack.confirm({ message: "Make the first workspace now?" }));
    if (!wanted) {
      clack.outro("Good.");
      return undefined;
    }
  }
  const name =
    given.workspaceName ??
    orStop(
      await clack.text({
        message: "Its name",
        initialValue: "Acme",
        validate: (text) => (text ? undefined : "it needs a name"),
      }),
    );
  const guess = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .padEnd(3, "0")
    .slice(0, 63);
  const slug =
    given.workspaceSlug ??
    orStop(
      await clack.text({
        message: "Its slug",
        initialValue: guess,
        validate: (text) =>
          /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/.test(text ?? "") ? undefined : "3 to 63 of a-z, 0-9 and -",
      }),
    );
  clack.outro("Good.");
  return { name, slug };
}
