// Reads a secret from a hidden prompt or standard input, never from an argument, which process lists show.
import { isTerminal, readStdin } from "./output.ts";

export async function readSecret(label: string): Promise<string> {
  if (!isTerminal()) return readStdin();
  const { askPassword } = await import("./prompts.ts");
  return askPassword(label);
}
