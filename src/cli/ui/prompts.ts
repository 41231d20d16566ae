// Terminal prompts. Ctrl-C ends the command with exit 2. Import it lazily: only interactive commands need it.
import * as clack from "@clack/prompts";
import { ExitError } from "./output.ts";

export const { intro, outro, log } = clack;

function orCancel<T>(answer: T): Exclude<T, symbol> {
  if (clack.isCancel(answer)) throw new ExitError("Cancelled. Nothing was changed.", 2);
  return answer as Exclude<T, symbol>;
}

type TextOptions = {
  message: string;
  initialValue?: string;
  /** Returns what is wrong with the answer, or undefined. */
  validate?: (text: string | undefined) => string | undefined;
};

export async function askText(options: TextOptions): Promise<string> {
  return orCancel(await clack.text(options)) ?? "";
}

export async function askPassword(message: string): Promise<string> {
  return orCancel(await clack.password({ message }));
}

export async function askYesNo(message: string, initialValue = true): Promise<boolean> {
  return orCancel(await clack.confirm({ message, initialValue }));
}

export async function askChoice<T extends string>(
  message: string,
  options: { value: T; label: string; hint?: string }[],
): Promise<T> {
  return orCancel(await clack.select<string>({ message, options })) as T;
}
